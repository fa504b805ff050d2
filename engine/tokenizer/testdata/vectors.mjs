// Writes vectors.json: the results of Hugging Face's tokenizers library for the texts below. It has the pieces into which each split rule
// divides the texts, the ids of the texts in the bundled models' vocabulary, and their ids in a small SentencePiece vocabulary that is made
// from it.
//
//	npm install --no-save tokenizers@0.23.2 && node vectors.mjs
//
// The expressions are llama.cpp's for each value of tokenizer.ggml.pre.
import { readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"

// Packages are loaded from the working directory, so they need not be installed next to this file.
const { Tokenizer } = createRequire(process.cwd() + "/")("tokenizers")

const texts = [
  "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n \n", "\t \n", "a", " a", "a ", "  a  b   c    ",
  "Hello world", " Hello  World!", "HELLO, World's end?", "I'm sure they'll say we've won; he'd know, it's theirs. I'M, WE'LL",
  "12 + 30 = 42", "1234567890 12 345 6,789.01 0x1F", "3.14159e-10", "½ of ² is Ⅻ and ٣٤٥ or १२३", "a1b22c333d4444",
  "Name the capital of Finland.", "Sort: pear, apple, fig", "Plan a day in Lisbon: walk,\n- eat\n- sleep\n",
  '{"name": "Priya", "age": 28, "city": "Helsinki"}', "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; } // done",
  "def f(x):\n\treturn x**2  # square\r\n\r\n", "<html><body class='x'>&amp;</body></html>", "https://example.com/a?b=c&d=%20#e",
  "!!! ... ,,, ??? --- ___ *** $$$ +++ <=> ^^^ ~~~ ||| ```", "a.b,c;d:e!f?g-h_i/j\\k|l", "$5 + €6 = £9 < ¥10 ~ 20% ^ 2 | `x`",
  "Führer Zürich naïve café Ærøskøbing", "e\u0301 a\u0308 o\u0302 combined", "нещо на Български, ΑΒΓ αβγ ώ ΐ Ί", "Ǆǅǆ ƻ ǀ ʔ ſ ﬁ ﬂ Å K",
  "日本語のテキスト、そして漢字かな交じり文。", "中文没有空格，也有标点！", "한국어 문장 입니다", "ひらがなカタカナ漢字123abc",
  "العربية نص قصير", "עברית", "हिन्दी में पाठ", "ไทยไม่มีช่องว่าง", "🙂 emoji 👩‍👩‍👧 and 🇮🇸 flags", "nbsp\u00a0here\u2003and\u3000there\u200b.",
  "“quotes” ‘single’ «angle» — dash … end", "A\u2028B\u2029C\u0085D", "tab\tbetween\twords  and   spaces    ", "MiXeD CaSe wOrDs AND ACRONYMS",
  "[gMASK]<sop><|user|>12 + 30 = ?<|assistant|></think>42<|user|>", "a<|user|> b <think> c</think>d", "<|use|> <|user", "x".repeat(40), " ".repeat(33) + "end",
]

const gpt2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
const llama3 = (digits) => String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + digits +
  String.raw`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
const cased = "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d" +
  "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ" +
  "\u{10400}-\u{1044f}𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
const eastAsian = "[一-龥\u0800-一가-\ud7ff]+"
const rules = {
  "gpt-2": [gpt2],
  starcoder: [String.raw`\p{N}`, gpt2],
  "llama-bpe": [llama3("{1,3}")],
  glm4: [llama3("{1,3}")],
  qwen2: [llama3("")],
  qwen35: [String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`],
  "gpt-4o": [String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`],
  tekken: [String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`],
  falcon: ["[\\p{P}$+<=>^~|`]+", gpt2, "[0-9][0-9][0-9]"],
  default: [String.raw`[\p{P}$+<=>^~|]+`, gpt2, String.raw`\p{N}+`, "[0-9][0-9][0-9]"],
  "deepseek-llm": [
    "[\r\n]", String.raw`\s?[` + cased + "]+", String.raw`\s?[!-/:-~！-／：-～‘-‟\u3000-。]+`, String.raw`\s+$`, eastAsian, String.raw`\p{N}+`,
  ],
  "deepseek-coder": ["[\r\n]", String.raw`\s?\p{L}+`, String.raw`\s?\p{P}+`, eastAsian, String.raw`\p{N}`],
  "deepseek-v3": [
    String.raw`\p{N}{1,3}`, "[一-龥\u3040-ゟ゠-ヿ]+",
    String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + String.raw`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  ],
}

const encode = (tokenizer) => Promise.all(texts.map(async (text) =>
  (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds()))

const bundled = JSON.parse(readFileSync(new URL("tokenizer.json", import.meta.url)))
const splits = {}
let ids
for (const [name, expressions] of Object.entries(rules)) {
  const config = structuredClone(bundled)
  config.pre_tokenizer = {
    type: "Sequence",
    pretokenizers: [
      ...expressions.map((Regex) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false })),
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
    ],
  }
  const tokenizer = Tokenizer.fromString(JSON.stringify(config))
  // The byte-level pre-tokenizer writes one character for each byte, so the length of a piece is its number of bytes.
  splits[name] = texts.map((text) => tokenizer.getPreTokenizer().preTokenizeString(text).map(([piece]) => piece.length))
  if (name === "glm4") ids = await encode(tokenizer)
}

// A SentencePiece vocabulary like Llama's: three special tokens, the bytes, then the pieces in order of their scores, the best first. It
// has the ASCII tokens of the bundled vocabulary. SentencePiece joins any two pieces that together are a piece, the best score first. The
// library needs a list of these pairs as merges, in this order.
const ascii = (token) => /^[!-~Ġ]+$/.test(token)
const pieces = Object.entries(bundled.model.vocab).sort((a, b) => a[1] - b[1]).map(([token]) => token).filter(ascii).slice(0, 700)
  .map((token) => token.replaceAll("Ġ", "▁")).filter((piece) => !/.▁/.test(piece))
const bytes = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`)
const tokens = ["<unk>", "<s>", "</s>", ...bytes, ...pieces]
const known = new Set(pieces)
const merges = pieces.flatMap((piece) => Array.from({ length: piece.length - 1 }, (_, i) => [piece.slice(0, i + 1), piece.slice(i + 1)])
  .filter(([left, right]) => known.has(left) && known.has(right)))
const sentencePiece = {
  version: "1.0",
  truncation: null,
  padding: null,
  added_tokens: ["<unk>", "<s>", "</s>"].map((content, id) =>
    ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
  normalizer: { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, { type: "Replace", pattern: { String: " " }, content: "▁" }] },
  pre_tokenizer: null,
  post_processor: null,
  decoder: null,
  model: {
    type: "BPE", dropout: null, unk_token: "<unk>", continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: true,
    byte_fallback: true, ignore_merges: false, vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges,
  },
}
const llama = await encode(Tokenizer.fromString(JSON.stringify(sentencePiece)))

const lists = (byText) => "[\n" + byText.map((list) => "      " + JSON.stringify(list)).join(",\n") + "\n    ]"
writeFileSync(new URL("vectors.json", import.meta.url), `{
  "texts": ${JSON.stringify(texts, null, 2)},
  "splits": {
${Object.entries(splits).map(([name, list]) => `    ${JSON.stringify(name)}: ${lists(list)}`).join(",\n")}
  },
  "ids": ${lists(ids)},
  "pieces": ${JSON.stringify(pieces)},
  "sentencePiece": ${lists(llama)}
}
`)
