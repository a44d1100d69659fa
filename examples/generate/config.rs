//! What a model of Llama's family is: its sizes, and the tensors that it has.

use std::f64::consts::TAU;

/// Sizes and constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub layers: usize,
    /// Elements of a token between layers.
    pub hidden: usize,
    /// Elements of a token inside of a feed-forward layer.
    pub ffn: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, of which each serves `heads / kv_heads` of queries.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head: usize,
    pub vocab: usize,
    /// Base of the angles of positions.
    pub theta: f64,
    /// How the angles are stretched for long texts.
    pub stretch: Option<Stretch>,
    pub eps: f32,
    /// Whether the last layer has the table of embeddings as its weight.
    pub tied: bool,
}

/// Llama 3.1's rule for angles: slow ones are divided by `factor`, fast ones stay, and between them there is a ramp.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    pub factor: f64,
    /// Turns in `context` positions below which an angle is slow.
    pub low: f64,
    /// Turns above which it is fast.
    pub high: f64,
    /// Positions that the model was trained for first.
    pub context: f64,
}

impl Config {
    /// Two layers of odd sizes, for the simulator.
    pub fn toy() -> Self {
        Config {
            layers: 2,
            hidden: 52,
            ffn: 76,
            heads: 6,
            kv_heads: 2,
            head: 12,
            vocab: 101,
            theta: 10_000.0,
            stretch: None,
            eps: 1e-5,
            tied: false,
        }
    }

    /// Llama 3.2 with 1.2 billion parameters.
    pub fn llama_1b() -> Self {
        Config {
            layers: 16,
            hidden: 2048,
            ffn: 8192,
            heads: 32,
            kv_heads: 8,
            head: 64,
            vocab: 128_256,
            theta: 500_000.0,
            stretch: Some(Stretch { factor: 32.0, low: 1.0, high: 4.0, context: 8192.0 }),
            eps: 1e-5,
            tied: true,
        }
    }

    /// The sizes of what one of so many devices has: heads, and columns of the feed-forward layers, are shared out.
    ///
    /// # Errors
    /// Sizes that are not shared out evenly.
    pub fn part(&self, devices: usize) -> Result<Config, String> {
        let shared = [
            ("heads", self.heads),
            ("heads of keys and values", self.kv_heads),
            ("columns of a feed-forward layer", self.ffn),
        ];
        let even = |devices: &usize| shared.iter().all(|(_, n)| n.is_multiple_of(*devices));
        if let Some((what, n)) = shared.iter().find(|(_, n)| !n.is_multiple_of(devices)) {
            let numbers: Vec<_> = (1..=self.kv_heads).filter(even).map(|n| n.to_string()).collect();
            let numbers = numbers.join(", ");
            return Err(format!(
                "{n} {what} are not shared out evenly by {devices} devices: take one of {numbers}"
            ));
        }
        let [heads, kv_heads, ffn] = shared.map(|(_, n)| n / devices);
        Ok(Config { heads, kv_heads, ffn, ..self.clone() })
    }

    /// How far pair d of a head turns from one position to the next.
    pub fn angle(&self, d: usize) -> f64 {
        let plain = self.theta.powf(-2.0 * d as f64 / self.head as f64);
        let Some(Stretch { factor, low, high, context }) = self.stretch else { return plain };
        let turns = context * plain / TAU;
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        plain * (kept + (1.0 - kept) / factor)
    }

    /// The tensors of layer `n` by the names of the format that Llama is published in.
    pub fn layer(&self, n: usize) -> LayerNames {
        let name = |rest: &str| format!("model.layers.{n}.{rest}.weight");
        let Config { hidden, ffn, head, .. } = *self;
        let [queries, keys] = [self.heads, self.kv_heads].map(|heads| heads * head);
        LayerNames {
            attention_norm: (name("input_layernorm"), vec![hidden]),
            q: (name("self_attn.q_proj"), vec![queries, hidden]),
            k: (name("self_attn.k_proj"), vec![keys, hidden]),
            v: (name("self_attn.v_proj"), vec![keys, hidden]),
            o: (name("self_attn.o_proj"), vec![hidden, queries]),
            ffn_norm: (name("post_attention_layernorm"), vec![hidden]),
            gate: (name("mlp.gate_proj"), vec![ffn, hidden]),
            up: (name("mlp.up_proj"), vec![ffn, hidden]),
            down: (name("mlp.down_proj"), vec![hidden, ffn]),
        }
    }

    pub fn embedding(&self) -> Named {
        ("model.embed_tokens.weight".into(), vec![self.vocab, self.hidden])
    }

    pub fn last_norm(&self) -> Named {
        ("model.norm.weight".into(), vec![self.hidden])
    }

    /// The weight of the last layer.
    pub fn output(&self) -> Named {
        if self.tied { self.embedding() } else { ("lm_head.weight".into(), vec![self.vocab, self.hidden]) }
    }

    /// All tensors, each once.
    pub fn tensors(&self) -> Vec<Named> {
        let mut all = vec![self.embedding(), self.last_norm()];
        all.extend((!self.tied).then(|| self.output()));
        for n in 0..self.layers {
            let LayerNames { attention_norm, q, k, v, o, ffn_norm, gate, up, down } = self.layer(n);
            all.extend([attention_norm, q, k, v, o, ffn_norm, gate, up, down]);
        }
        all
    }

    /// Parameters that each token reads: all but the table of embeddings, of which it reads a row.
    pub fn read(&self) -> usize {
        let of = |(_, shape): &Named| shape.iter().product::<usize>();
        let all: usize = self.tensors().iter().map(of).sum();
        if self.tied { all } else { all - of(&self.embedding()) }
    }
}

/// A tensor's name and shape.
pub type Named = (String, Vec<usize>);

/// The tensors of a layer.
pub struct LayerNames {
    pub attention_norm: Named,
    pub q: Named,
    pub k: Named,
    pub v: Named,
    pub o: Named,
    pub ffn_norm: Named,
    pub gate: Named,
    pub up: Named,
    pub down: Named,
}
