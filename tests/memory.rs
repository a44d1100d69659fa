//! What buffers take of a device's memory, on the simulator.

use tilewright::{Device, Error, MemoryUse, prelude::*};

#[test]
fn memory_after_is_memory_before() {
    let device = Device::sim();
    let taken = |device: &Device| device.memory().unwrap().in_use;
    let before = device.memory().unwrap();
    assert_eq!(before, MemoryUse { in_use: 0, reserved: 0, free: 16 << 30 });
    {
        let x = Buffer::<f32>::zeros(&device, &[10, 10]).unwrap();
        let y = Buffer::from_slice(&device, &[half::f16::ONE; 3], &[3]).unwrap();
        assert_eq!(taken(&device), 406);
        assert_eq!(taken(&device.clone()), 406, "a clone is the same device");
        assert_eq!(taken(&Device::sim()), 0, "another one is not");
        let part = x.slice(&[0..2, 0..10]).unwrap();
        assert_eq!(taken(&device), 406, "a view takes nothing");
        drop((part, y));
        assert_eq!(device.memory().unwrap().available(), (16 << 30) - 400);
        assert!(matches!(device.check_memory((16 << 30) - 399), Err(Error::OutOfMemory { .. })));
        device.check_memory((16 << 30) - 400).unwrap();
        assert!(matches!(Buffer::<f32>::zeros(&device, &[4 << 30]), Err(Error::OutOfMemory { .. })));
        assert_eq!(taken(&device), 400, "what did not fit takes nothing");
    }
    device.trim().unwrap();
    device.keep(0).unwrap();
    assert_eq!(device.memory().unwrap(), before);
}
