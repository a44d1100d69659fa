//! The kernels that stand in source files of the repository, without the schedules that stand beside them.

use quote::ToTokens;
use std::{fs, path::Path};
use tile_dsl::{dtype::DType, tile::Kernel};

/// A kernel, and the file that it stands in, from the root of the repository.
pub struct Source {
    /// File.
    pub file: String,
    /// The kernel, its generic element type and all.
    pub kernel: Kernel,
}

impl Source {
    /// Element types of the generic parameter that it is tried in.
    pub fn dtypes(&self) -> Vec<Option<DType>> {
        match self.kernel.generic {
            Some(_) => vec![Some(DType::F32), Some(DType::BF16)],
            None => vec![None],
        }
    }
}

/// The kernels of the examples, of the library and of `more.rs`, by file, in the order written.
pub fn every() -> Vec<Source> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|p| p.join("kernels/src/kernels").is_dir());
    let root = root.expect("inside of the repository");
    let mut files = Vec::new();
    for folder in ["examples", "kernels/src/kernels"] {
        collect(&root.join(folder), &mut files);
    }
    files.push(root.join("auto/tests/auto/more.rs"));
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        let name = file.strip_prefix(root).expect("below the root").display().to_string();
        let items = syn::parse_file(&text).expect("Rust").items;
        found.extend(kernels(&items).map(|kernel| Source { file: name.clone(), kernel }));
    }
    found
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            collect(&entry, files);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            files.push(entry);
        }
    }
}

fn kernels(items: &[syn::Item]) -> impl Iterator<Item = Kernel> {
    let of = |item: &syn::Item| {
        let syn::Item::Fn(function) = item else { return None };
        let is_kernel = |a: &syn::Attribute| a.path().is_ident("tile_kernel");
        let mut plain = function.clone();
        plain.attrs.retain(|a| !is_kernel(a));
        function.attrs.iter().any(is_kernel).then(|| expanded(plain.to_token_stream()))
    };
    items.iter().filter_map(of).collect::<Vec<_>>().into_iter()
}

/// The tile IR that the macro embeds.
fn expanded(item: proc_macro2::TokenStream) -> Kernel {
    let tokens = tile_macros_core::tile_kernel(proc_macro2::TokenStream::new(), item);
    let file: syn::File = syn::parse2(tokens).expect("items");
    for item in &file.items {
        let syn::Item::Impl(block) = item else { continue };
        for item in &block.items {
            if let syn::ImplItem::Const(constant) = item
                && constant.ident == "KERNEL"
                && let syn::Expr::Lit(literal) = &constant.expr
                && let syn::Lit::ByteStr(bytes) = &literal.lit
            {
                return Kernel::from_bytes(&bytes.value()).expect("a kernel of this version");
            }
        }
    }
    panic!("the macro embeds no kernel")
}
