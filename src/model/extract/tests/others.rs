//! Unsupported languages, and limits.

use super::{Reading, dialogues, material};

dialogues! {
    finnish_is_not_read: "
        ada: Milloin julkaisemme uuden version?
        bo: Ehkä perjantaina, jos testit menevät läpi.
        ada: Hyvä, minä kirjoitan julkaisutiedotteen torstaina.",
        { }

    japanese_is_not_read: "
        ada: 会議は金曜日にしましょう。
        bo: はい、大丈夫です。
        ada: 資料は私が準備します。",
        { }
}

#[test]
fn a_language_that_is_not_read_is_quoted_and_said_so() {
    let outline = Reading::new(&material("ada: Milloin julkaisemme uuden version?\nbo: Minusta perjantai olisi hyvä, mutta testit pitää ajaa ensin.")).outline();
    assert!(
        outline.conclusion.contains("cannot be detected")
            && outline.conclusion.contains("perjantai")
    );
    assert!(outline.key_points[0].text.contains("perjantai"));
}
