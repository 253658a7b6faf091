//! Pre-tokenizers: how a text is cut into words before byte pairs are merged. One row each; a new one is a row and,
//! where no scanner fits, a file.

mod gpt2;
mod llama3;

/// Gives the words of a text in order; together they are the text.
type Split = fn(&str, &mut dyn FnMut(&str));

/// What a name in `tokenizer.ggml.pre` stands for.
pub(super) struct PreTokenizer {
    /// The names that files use for it; the first is ours.
    pub names: &'static [&'static str],
    /// How a text is cut.
    pub split: Split,
    /// A word that is a token as it stands is taken without merging.
    pub ignore_merges: bool,
    /// Whether a prompt starts with BOS when the file does not say.
    pub add_bos: bool,
}

static TABLE: &[PreTokenizer] = &[
    PreTokenizer {
        names: &[
            "gpt-2",
            "phi-2",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
        ],
        split: gpt2::split,
        ignore_merges: false,
        add_bos: false,
    },
    PreTokenizer {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        split: gpt2::split_single_digits,
        ignore_merges: false,
        add_bos: false,
    },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        split: llama3::split,
        ignore_merges: true,
        add_bos: true,
    },
    PreTokenizer {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe"],
        split: llama3::split,
        ignore_merges: false,
        add_bos: false,
    },
    PreTokenizer { names: &["glm4"], split: llama3::split, ignore_merges: true, add_bos: false },
    PreTokenizer {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "megrez",
            "kormo",
            "f2llmv2",
            "stablelm2",
            "hunyuan",
            "solar-open",
        ],
        split: llama3::split_single_digits,
        ignore_merges: false,
        add_bos: false,
    },
    PreTokenizer {
        names: &["qwen35"],
        split: llama3::split_with_marks,
        ignore_merges: false,
        add_bos: false,
    },
];

/// The pre-tokenizer of that name.
pub(super) fn find(name: &str) -> Option<&'static PreTokenizer> {
    TABLE.iter().find(|row| row.names.contains(&name))
}

/// Every name `find` knows.
pub(super) fn names() -> Vec<&'static str> {
    TABLE.iter().flat_map(|row| row.names.iter().copied()).collect()
}

#[cfg(test)]
pub(super) fn words(name: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(row) = find(name) {
        (row.split)(text, &mut |word| out.push(word.to_owned()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_in_two_rows() {
        let mut all = names();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
    }

    /// When the file is silent: the llama 3 family starts a prompt with BOS, nobody else here does.
    #[test]
    fn bos_defaults() {
        for name in names() {
            let llama3 =
                ["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"];
            assert_eq!(find(name).unwrap().add_bos, llama3.contains(&name), "{name}");
        }
    }

    #[test]
    fn words_of_a_line() {
        let text = "I'll  pay 1234€\t\n  now";
        assert_eq!(words("gpt-2", text), ["I", "'ll", " ", " pay", " 1234", "€", "\t\n ", " now"]);
        assert_eq!(
            words("smollm", text),
            ["I", "'ll", " ", " pay", " ", "1", "2", "3", "4", "€", "\t\n ", " now"]
        );
        assert_eq!(
            words("llama-bpe", text),
            ["I", "'ll", " ", " pay", " ", "123", "4", "€", "\t\n", " ", " now"]
        );
        assert_eq!(
            words("qwen2", text),
            ["I", "'ll", " ", " pay", " ", "1", "2", "3", "4", "€", "\t\n", " ", " now"]
        );
    }
}
