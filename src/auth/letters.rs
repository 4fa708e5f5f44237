//! Latin letters for those that Unicode does not decompose to Latin ones: letter by letter, without regard to pronunciation.

/// Pairs of a lowercase letter and its Latin letters.
const TABLE: &[&str] = &[
    // Latin
    "łl øo đd ðd ßss æae œoe þth ħh ıi ŋng ŧt əe ǝe ʻ ʼ",
    // Cyrillic
    "аa бb вv гg дd еe жzh зz иi кk лl мm нn оo пp рr сs тt уu фf хkh цts чch шsh щshch ъ ыy ь эe юiu яia іi єie ґg ђdj јj љlj њnj ћc џdz",
    // Greek
    "αa βv γg δd εe ζz ηi θth ιi κk λl μm νn ξx οo πp ρr σs ςs τt υy φf χch ψps ωo",
    // Armenian
    "աa բb գg դd եe զz էe ըy թt ժzh իi լl խkh ծts կk հh ձdz ղgh ճch մm յy նn շsh ոo չch պp ջj ռr սs վv տt րr ցts ւw փp քk օo ֆf",
    // Georgian
    "აa ბb გg დd ეe ვv ზz თt იi კk ლl მm ნn ოo პp ჟzh რr სs ტt უu ფp ქk ღgh ყq შsh ჩch ცts ძdz წts ჭch ხkh ჯj ჰh",
    // Hiragana; Katakana are 0x60 behind them.
    "ぁa あa ぃi いi ぅu うu ぇe えe ぉo おo かka きki くku けke こko さsa しshi すsu せse そso たta ちchi っ つtsu てte とto なna にni ぬnu ねne のno はha ひhi ふfu へhe ほho まma みmi むmu めme もmo ゃya やya ゅyu ゆyu ょyo よyo らra りri るru れre ろro ゎwa わwa ゐi ゑe をo んn ー",
    "がga ぎgi ぐgu げge ごgo ざza じji ずzu ぜze ぞzo だda ぢji づzu でde どdo ばba びbi ぶbu べbe ぼbo ぱpa ぴpi ぷpu ぺpe ぽpo ゔvu",
];

/// Romanizations of the parts of a Hangul syllable: first consonants, vowels, and last consonants.
const FIRST: &[&str] = &[
    "g", "kk", "n", "d", "tt", "r", "m", "b", "pp", "s", "ss", "", "j", "jj", "ch", "k", "t", "p",
    "h",
];
const VOWELS: &[&str] = &[
    "a", "ae", "ya", "yae", "eo", "e", "yeo", "ye", "o", "wa", "wae", "oe", "yo", "u", "wo", "we",
    "wi", "yu", "eu", "ui", "i",
];
const LAST: &[&str] = &[
    "", "k", "k", "k", "n", "n", "n", "t", "l", "k", "m", "l", "l", "l", "p", "l", "m", "p", "p",
    "t", "t", "ng", "t", "t", "k", "t", "p", "t",
];

/// The Latin letters of a lowercase letter; `None` if there are none for its script. The text must be composed.
pub(super) fn latin(c: char) -> Option<String> {
    if let Some(n) = u32::from(c).checked_sub(0xac00).filter(|n| *n < 11_172) {
        let part = |list: &'static [&'static str], n: u32| {
            list.get(n as usize).copied().unwrap_or_default()
        };
        return Some(
            [
                part(FIRST, n / 588),
                part(VOWELS, n % 588 / 28),
                part(LAST, n % 28),
            ]
            .concat(),
        );
    }
    let c = match c {
        '\u{30a1}'..='\u{30f4}' => char::from_u32(u32::from(c) - 0x60).unwrap_or(c),
        c => c,
    };
    let mut entries = TABLE.iter().flat_map(|line| line.split(' '));
    let found = entries.find_map(|entry| entry.strip_prefix(c));
    found.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_several_scripts_have_latin_ones() {
        let latin = |text: &str| text.chars().filter_map(latin).collect::<String>();
        assert_eq!(latin("дмитри"), "dmitri");
        assert_eq!(latin("μαρια"), "maria");
        assert_eq!(latin("თამარ"), "tamar");
        assert_eq!(latin("անի"), "ani");
        assert_eq!(latin("さくら"), "sakura");
        assert_eq!(latin("サクラ"), "sakura");
        assert_eq!(latin("김민준"), "gimminjun");
        assert_eq!(latin("李שמ"), "");
    }
}
