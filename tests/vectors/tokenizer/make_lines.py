"""Writes lines.txt: the lines whose token ids are compared with the peer's. The random part is seeded.

    python3 make_lines.py > lines.txt
"""
import random
import sys
import unicodedata

PROSE = """
The quick brown fox jumps over the lazy dog.
Name the capital of France.
A sentence, with commas; semicolons: colons -- dashes... and an ellipsis…
"Quoted" and 'single quoted' and “curly” and ‘single curly’ and «guillemets».
UPPER lower Title MiXeD camelCase PascalCase snake_case kebab-case SCREAMING_SNAKE
(parentheses) [brackets] {braces} <angles> |pipes| \\backslashes\\ /slashes/
e.g. i.e. etc. Mr. Mrs. Dr. U.S.A. a.m. p.m.
antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis
Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft
Tomorrow, and tomorrow, and tomorrow creeps in this petty pace from day to day
well-being co-operate re-enter mother-in-law state-of-the-art
Send it to someone@example.org or visit https://example.org/a/b?c=d&e=f#g today
50% off! $19.99 €20 £15 ¥2000 ₹500 ₿0.001
a
I
.

 
?!?!?!
~~~ *** ___ --- === +++ ### @@@ &&& ^^^ %%% $$$
Hello
 Hello
  Hello
Hello 
 Hello world
hello world hello world hello world hello world hello world
""".strip("\n").split("\n")

CONTRACTIONS = """
I'm you're he's she'll we've they'd it's don't can't won't shan't
I'M YOU'RE HE'S SHE'LL WE'VE THEY'D IT'S DON'T CAN'T WON'T
I'm I'M i'M 'm 'M ''m ' m
'tis 'twas 'em o'clock rock'n'roll y'all'd've
the dogs' bowls, James's hat, the 1990's, 90s, '90s
I’m you’re he’s she’ll we’ve they’d it’s don’t
'll 've 're 'LL 'Ll 'lL 'VE 'Ve 'RE 'rE
x's x'S x't x'T x'd x'D x'm x'M x'x x'
's's's's 't't 'd'd
'ſ 'K ſ'ſ
s' t' re' ve' l'l
'1 '2nd '٣ '中 'é
' s ' t ' re
don' t isn 't
""".strip("\n").split("\n")

LATIN = """
Voilà: l'été à Nîmes, où l'on mange des crêpes, ça coûte cher, naïve Noël
Größenwahn, Straße, Äpfel, Öl, Übermut, weiß, daß, ẞ
El niño comió piñas; ¿dónde está? ¡Aquí!
São Paulo, coração, pão, ação, às três
Příliš žluťoučký kůň úpěl ďábelské ódy
Zażółć gęślą jaźń
Árvíztűrő tükörfúrógép
İstanbul'da ılık ırmak, ğüşöçİĞÜŞÖÇ
Þórður ræddi við Æsu í Reykjavík
Smørrebrød på blåbærsyltetøy, Ångström
Hôm nay trời đẹp quá, chúng ta đi chơi nhé
Ōkami, Tōkyō, Ūsque, ē ī
ﬁne oﬃce ﬂow ǅ ǆ Ǆ ŉ ĸ
ᴀʙᴄ ｆｕｌｌｗｉｄｔｈ Ｆｕｌｌ Ｗｉｄｔｈ １２３
""".strip("\n").split("\n")

SCRIPTS = """
你好，世界！今天天气很好。
我们在2024年10月1日去了北京，花了1234.5元。
漢字かな交じり文、カタカナ、ﾊﾝｶｸｶﾅ、全角　スペース。
吾輩は猫である。名前はまだ無い。
안녕하세요, 세계! 오늘은 날씨가 좋습니다.
ㄱㄴㄷ ㅏㅑㅓ 각갂갃 한글
สวัสดีชาวโลก วันนี้อากาศดีมาก
ภาษาไทยไม่มีเว้นวรรคระหว่างคำ ๑๒๓๔
مرحبا بالعالم، كيف حالك اليوم؟
اَلسَّلَامُ عَلَيْكُمْ ١٢٣٤ ۱۲۳۴
שלום עולם, מה שלומך היום?
שָׁלוֹם עֲלֵיכֶם
नमस्ते दुनिया, आज मौसम अच्छा है। १२३
ক্ষমা করবেন, আমি বাংলা বলি। ১২৩
வணக்கம் உலகம், இன்று வானிலை நன்றாக உள்ளது
తెలుగు ಕನ್ನಡ മലയാളം ગુજરાતી ਪੰਜਾਬੀ සිංහල
Привет, мир! Как дела сегодня? Съешь ещё этих мягких булок.
Їжак, ґанок, європа, Ўзбекістан, Ђорђе, Ѓорѓи
Γειά σου Κόσμε, τι κάνεις σήμερα; Ἐν ἀρχῇ ἦν ὁ λόγος
Բարեւ աշխարհ გამარჯობა მსოფლიო ሰላም ዓለም
ᠮᠣᠩᠭᠣᠯ བོད་ཡིག မြန်မာ ភាសាខ្មែរ ລາວ
ᚠᚢᚦᚨᚱᚲ 𐌰𐌱𐌲 𓀀𓁐 𒀀𒁀 𐤀𐤁
ꙮ Ꙁ ⰀⰁ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ
中文English混合text和数字123以及符号!@#
日本語とEnglishと한국어のmix
ไทยEnglishไทย
العربيةEnglishالعربية
""".strip("\n").split("\n")

EMOJI = """
😀 😃 😄 😁 😆 😅 😂 🤣
😀😃😄😁😆😅😂🤣
👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 🏴‍☠️ 👩‍❤️‍💋‍👨
🇩🇪🇫🇷🇯🇵🇺🇸 🇪 🇺
👍👍🏻👍🏼👍🏽👍🏾👍🏿
❤ ❤️ ☺ ☺️ ☎︎ ☎️
1️⃣ 2️⃣ #️⃣ *️⃣
🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿
Great job!🎉🎉🎉 See you at 5🕔
🫠🫡🫥🩷🪿🫨
text😀text 😀 text😀
♠♥♦♣ ♪♫ ★☆ ✓✗ → ⇒ ∀∃∈∑∏√∞≠≤≥±×÷
""".strip("\n").split("\n")

DIGITS = """
0 1 12 123 1234 12345 123456 1234567 12345678 123456789 1234567890
3.14159 -42 +7 1e10 1.5E-7 0x1F 0b1010 0o17 1_000_000 1,234,567.89
2024-02-29T23:59:59Z 12:34 12/31/1999 +49 (30) 123-4567
v1.2.3-rc.4 IPv4 192.168.0.1 ::1 fe80::1%eth0
٠١٢٣٤٥٦٧٨٩ ۰۱۲۳۴۵ ०१२३४५ ০১২৩ ๐๑๒๓ 〇一二三
x² y³ 10⁶ H₂O ½ ¾ ⅓ ⅞
Ⅰ Ⅱ Ⅲ Ⅳ Ⅷ Ⅻ ⅰⅱⅲ ↀↁↂ
①②③ ⑴⑵⑶ ⒈⒉⒊ ㊀㊁ ㉑㊿ ❶❷❸
𝟎𝟏𝟐 𝟘𝟙𝟚 𝟢𝟣𝟤 𝟬𝟭𝟮 𝟶𝟷𝟸 𐒠𐒡
a1b2c3 1a2b3c abc123def456
1234abc5678 12中34文 12é34
1٢3٤5 12²³ Ⅷ8Ⅷ
 1  12   123    1234
1 2 3 4 5
1.2.3.4.5 1,2,3,4,5 1-2-3-4-5
00000000000000000000000000000000
99999999999999999999999999999999999999999999999999
""".strip("\n").split("\n")

CODE = r"""
#include <stdio.h>
int main(void) { return 0; }
for (int i = 0; i < n; ++i) { a[i] += b[i] * 2; }
fn main() { println!("{:?}", vec![1, 2, 3].iter().map(|x| x + 1).collect::<Vec<_>>()); }
let x: Option<&'a str> = None; // comment
impl<T: Clone + 'static> Foo for Bar<T> where T: Send {}
def f(x, *args, **kwargs): return {k: v for k, v in kwargs.items() if v is not None}
    if __name__ == "__main__":
        print(f"{x!r:>10}", end="")
const f = async (x) => { await g(x ?? 1); return `${x}`; };
document.querySelector('#id > .class[data-x="y"]')?.addEventListener("click", () => {});
SELECT a.id, COUNT(*) FROM t AS a LEFT JOIN u ON a.id = u.id WHERE u.x <> 'it''s' GROUP BY 1;
<div class="a b" data-x='1'><!-- comment --><br/>&nbsp;&amp;</div>
<?xml version="1.0" encoding="UTF-8"?><a xmlns:b="urn:c"/>
{"key": [1, 2.5, true, null, {"nested": "va\"lue\n"}]}
git commit -m "fix: don't crash" && git push origin HEAD:refs/for/main
$ ls -la | grep '^d' | awk '{print $9}' > /dev/null 2>&1
sed -e 's/\(a\|b\)*/\1/g' ; echo "${VAR:-default}" "$(date +%s)"
public static void main(String[] args) throws Exception { }
template<typename T, size_t N = 4> constexpr auto operator<=>(const T&) noexcept;
func (s *Server) Handle(w http.ResponseWriter, r *http.Request) error { return nil }
main :: IO () ; main = mapM_ print $ filter even [1..10]
(defun fact (n) (if (<= n 1) 1 (* n (fact (- n 1)))))
\begin{equation} \int_0^\infty e^{-x^2} dx = \frac{\sqrt{\pi}}{2} \end{equation}
layout(local_size_x = 64) in; shared float s[256]; gl_GlobalInvocationID.x
mov rax, [rbx+8*rcx-0x10] ; jmp .L1
	tab	indented	with	tabs
		two tabs
    four spaces
        eight spaces
   	 mixed 	 indent
a=b==c===d!=e!==f<=g>=h<<i>>j>>>k&&l||m!n~o^p%q
i++ + ++i - --j -= k *= l /= m
// ---------------------------------------------------------------
################################################################
""".strip("\n").split("\n")

SPACE = [
    " ", "  ", "   ", "    ", "     ", "        ", " " * 16, " " * 31, " " * 64,
    "\t", "\t\t", "\t\t\t", " \t", "\t ", " \t ", "\t \t", "\t\t\t\t\t\t\t\t",
    "a b", "a  b", "a   b", "a    b", "a     b", "a\tb", "a\t\tb", "a \tb", "a\t b", "a \t b",
    "a ", "a  ", "a   ", "a\t", "a\t\t", "a \t", " a", "  a", "   a", "\ta", "\t\ta",
    " 1", "  1", "1 ", "1  ", "1  2", "1\t2", " .", "  .", ". ", ".  ", ".  .", ".\t.",
    " 中", "  中", "中 ", "中  文", " é", "  é", " 😀", "  😀", "😀  ",
    "\u00a0", "\u00a0\u00a0", "a\u00a0b", "a \u00a0b", "a\u00a0 b", "\u00a0a", "a\u00a0", "10\u00a0000",
    "\u2003", "a\u2003b", "a\u2003\u2003b", "a\u2009b", "a\u202fb", "a\u205fb", "a\u1680b",
    "\u2028", "a\u2028b", "a\u2029b", "a\u2028\u2028b", "a \u2028 b",
    "\u3000", "a\u3000b", "\u3000\u3000文", "中\u3000文", "a\u3000\u3000 b",
    "\u0085", "a\u0085b", "a\u0085\u0085b", "\u000b", "a\u000bb", "a\u000cb", "\u000c\u000c",
    "\r", "a\rb", "a\r\rb", "\r\ra", "a \r b", "a\r", "a \r", ".\r.", "!!\r\r!!", " \r \r ", "a\r  b", "1\r2", "\r1",
    "\u200b", "a\u200bb", "a\u200cb", "a\u200db", "a\u2060b", "\ufeffa", "a\ufeffb", "\u180ea", "\u00ada",
    "  leading and trailing  ", "\t\tleading tabs and trailing\t\t", "a" + " " * 40 + "b", "x" + "\t" * 20 + "y",
    "word \u00a0 \u2003 \u3000 word", " \u00a0\t\u2003\u3000\r ", "a \u2028\u2029 \u0085 b",
]  # fmt: skip

SPECIAL = """
<|im_start|>user
<|im_start|>system You are helpful.<|im_end|><|im_start|>user Hi<|im_end|>
<|endoftext|>
<|endoftext|><|endoftext|>
text<|endoftext|>text
 <|endoftext|> 
<|begin_of_text|>Hello
<|begin_of_text|><|begin_of_text|>Hello
<|start_header_id|>user<|end_header_id|> Hi<|eot_id|>
<|eot_id|><|eot_id|><|eot_id|>
<|end_of_text|> <|finetune_right_pad_id|> <|python_tag|> <|eom_id|>
<|reserved_special_token_0|> <|reserved_special_token_1|> <|reserved_special_token_10|> <|reserved_special_token_100|>
<|reserved_special_token_|> <|reserved_special_token_999|>
<|im_start <|im_start| im_start|> |im_start|> <im_start> <|im_start |>
<<|im_start|>> <|<|im_start|>|> <|im_<|im_end|>start|>
<|IM_START|> <|Im_Start|> <| im_start |>
<|im_end|><|im_end|> x <|im_end|>  y
a<|im_end|>b c <|im_end|> d  <|im_end|>  e
<repo_name>kiln<file_sep>main.rs<reponame>x<filename>y<gh_stars>100-1000
<issue_start>a<issue_comment>b<issue_closed> <jupyter_start><jupyter_text>t<jupyter_code>c<jupyter_output>o<empty_output>
<repo_name <repo_name>> <<repo_name>
<fim_prefix>a<fim_suffix>b<fim_middle> <|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>
<s> </s> <unk> <pad> <mask> [CLS] [SEP] [PAD] [UNK] [INST] [/INST] <<SYS>>
[PAD151646] [PAD151646][PAD151647] [PAD151900] [PAD1516460] [PAD15164
x[PAD151646]y x [PAD151646] y
<think>hm</think> <tool_call>{"a":1}</tool_call>
<|user|> <|assistant|> <|system|> <|end|> <start_of_turn>user <end_of_turn>
<|vision_start|><|image_pad|><|vision_end|> <|object_ref_start|>
é<|im_start|>é 中<|im_start|>中 😀<|im_end|>😀 \u0301<|im_end|>\u0301
1<|im_start|>2 123<|endoftext|>456
'<|im_start|>s '<|endoftext|>ll I<|im_end|>'m
\t<|im_start|>\t  <|endoftext|>\u00a0
""".strip("\n").replace("\\t", "\t").replace("\\u0301", "\u0301").replace("\\u00a0", "\u00a0").split("\n")  # fmt: skip

ODD = [
    "\u0001\u0002\u0003", "a\u0007b", "\u001b[31mred\u001b[0m", "\u007f", "a\u0000b".replace("\u0000", "\u0008"),
    "\u0080\u0081\u009f", "\u0004\u0006\u0013\u0014\u0016\u001d", "x\u0004y\u0006z", "tail\u001d",
    "\ue000\ue001", "a\uf8ffb", "\U000f0000", "\U0010fffd", "a\U00100000b", "\U00040000", "\U0009abcd z",
    "\u0378", "a\u0378b", "\u0530\u0557", "\U0001ffff", "\ufffe\uffff", "\ufdd0", "a\ufffdb", "\ufffd\ufffd",
    "e\u0301", "\u0301", "\u0301a", " \u0301", "a\u0301\u0302\u0303\u0304b", "\u0301\u0301 \u0301", "1\u0301", ".\u0301",
    "Z\u0351\u036b\u0343a\u0329\u032al\u033b\u0348g\u0347o\u035a", "\u20dd\u20e0a\u20dd", "\u0e31\u0e34", "\u093f", "\U0001d165",
    "\u064b\u064c\u064d", "\u0903\u093e", "\ufe0e\ufe0f", "a\ufe0fb", "\U000e0100", "\u034f", "\u061c\u202e\u202d\u2066",
    "\U0001f1e6\U0001f1e6\U0001f1e6", "\u200d\u200d", "👨\u200d", "\u200d👩", "🏽", "a🏽",
    "\U0001d400\U0001d401", "\U0001d7ce\U0001d7cf", "\U00020000\U0002a6d6", "\U0002ebf0", "\U00030000\U000323af",
    "\ua7da", "\u1c89", "\U00011f04\U00011f50", "\u0870\u0888\u0898", "\u2ffc\u31ef", "\U0001e030", "\U000105c0",
    "a" * 20, "a" * 100, "ab" * 60, "abc" * 50, "A" * 50, "aA" * 40, "é" * 40, "中" * 40, "😀" * 20, "." * 70, "-" * 80,
    "=" * 33, "_" * 47, "/" * 21, "!" * 19, "?!" * 20, "0" * 64, "1a" * 30, "a." * 30, "' " * 20, "''" * 15, "\\" * 25,
    "supercalifragilisticexpialidocious" * 5, "x" * 300, "lorem ipsum " * 12, "\u0301" * 30, "\u200d" * 15, "\ue000" * 10,
]  # fmt: skip

NFC = ["Crème brûlée à la façon d'Ångström", "Tiếng Việt có dấu", "Žluťoučký kůň", "각하 한국", "ñandú Ümlaut çedilla"]

POOLS = {
    "word": "the Hello world function return import class tokenizer kernel xyzzy ing tion ness un pre".split(),
    "digit": list("0123456789٠١٢३४²³½ⅧⅫ①㊿𝟘〇"),
    "latin": list("éèüñçßøåœÿŁžşİı") + ["e\u0301", "u\u0308"],
    "script": list("中文字符日本語かなカナ한국어กขคสวัสดีنهایتمرحباשלוםनमस्तेПриветγειά"),
    "space": list(" \t\u00a0\u2003\u2028\u3000\r\u000b\u0085\u202f"),
    "mark": list("\u0300\u0301\u0e31\u064b\u093f\u20dd\ufe0f"),
    "emoji": ["😀", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤️"],
    "tail": ["'s", "'S", "'t", "'ll", "'LL", "'ve", "'Re", "’s", "'x", "''"],
    "code": ["==", "!=", "->", "();", "{}", "//", "/*", "::", "&&", "\\n", '"""', "</div>"],
    "special": ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|begin_of_text|>", "<|im_st", "|>",
                "<file_sep>", "[PAD151650]", "<|reserved_special_token_1|>"],
    "punct": list("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~«»…—"),
}  # fmt: skip


def any_character(pick):
    """An arbitrary code point, assigned or not, spread over the planes."""
    low, high = pick.choices(
        [(0x20, 0x80), (0x80, 0x800), (0x800, 0x10000), (0x10000, 0x20000), (0x20000, 0x110000)], [1, 3, 4, 3, 1]
    )[0]
    code = pick.randrange(low, high)
    return any_character(pick) if 0xD800 <= code <= 0xDFFF else chr(code)


def mixed(pick):
    pools = pick.sample(list(POOLS), pick.randint(2, 5))
    parts = []
    for _ in range(pick.randint(2, 14)):
        parts.append(pick.choice(POOLS[pick.choice(pools)]) * pick.choice([1, 1, 1, 1, 2, 3]))
        if pick.random() < 0.3:
            parts.append(" ")
    return "".join(parts)


def lines():
    yield from PROSE + CONTRACTIONS + LATIN + SCRIPTS + EMOJI + DIGITS + CODE + SPACE + SPECIAL + ODD
    for line in LATIN + NFC:
        yield unicodedata.normalize("NFD", line)
    yield from NFC
    pick = random.Random(20261129)
    for _ in range(150):
        yield mixed(pick)
    for _ in range(80):
        yield "".join(any_character(pick) for _ in range(pick.randint(1, 12)))


out = "".join(line + "\n" for line in lines())
if out.count("\n") != sum(1 for _ in lines()):
    sys.exit("a line contains a line end")
sys.stdout.reconfigure(newline="\n")
sys.stdout.write(out)
