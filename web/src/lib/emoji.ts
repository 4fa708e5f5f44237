/** The emoji people reach for, with the names they type. Loaded when first asked for. */
const LIST = `😀 grinning|😄 smile|😁 beaming grin|😂 joy tears laugh|🤣 rofl laugh|🙂 slight smile|🙃 upside down|😉 wink|😊 blush happy|😇 innocent angel|🥰 loved hearts|😍 heart eyes|😘 kiss|😋 yum|😎 cool sunglasses|🤓 nerd|🧐 monocle curious|🤔 thinking hmm|🤨 raised eyebrow|😐 neutral|😑 expressionless|😶 no mouth|🙄 eye roll|😏 smirk|😬 grimace|😌 relieved|😴 sleeping tired|🤒 sick|🤯 mind blown exploding|🥳 party celebrate|😢 cry sad|😭 sob|😤 triumph huff|😠 angry|😡 rage|😱 scream|😳 flushed|🥺 pleading please|😅 sweat smile|😓 sweat|🤗 hug|🤫 shush quiet|🤭 giggle oops|🫡 salute|🫠 melting|🤷 shrug|🤦 facepalm|🙋 raise hand question|🙇 bow|💁 tipping hand|👍 thumbsup +1 yes|👎 thumbsdown -1 no|👌 ok|✌️ victory peace|🤞 fingers crossed luck|🤝 handshake deal|👏 clap applause|🙌 raised hands hooray|🙏 pray thanks please|💪 muscle strong|👋 wave hello bye|✋ hand stop|👉 point right|👈 point left|👆 point up|👇 point down|✍️ writing|👀 eyes look|🧠 brain smart|❤️ heart love|🧡 orange heart|💛 yellow heart|💚 green heart|💙 blue heart|💜 purple heart|🖤 black heart|💔 broken heart|💯 hundred 100|🔥 fire hot|✨ sparkles new|⭐ star|🌟 glowing star|💡 idea bulb|💥 boom|💫 dizzy|🎉 tada party hooray|🎊 confetti|🎂 cake birthday|🎁 gift present|🏆 trophy win|🥇 first medal gold|🚀 rocket ship launch|✅ check done yes|☑️ checkbox|❌ cross no wrong|❗ exclamation|❓ question|⚠️ warning|🚨 siren alarm incident|🛑 stop|🚧 construction wip|⏳ hourglass wait|⏰ alarm clock|📅 calendar date|📌 pin|📎 paperclip|📝 memo note|📄 page document|📊 chart bar|📈 chart up growth|📉 chart down|📣 megaphone announce|📢 loudspeaker|🔔 bell|🔕 bell off|🔍 search magnifier|🔑 key|🔒 lock|🔓 unlock|🔧 wrench fix|🔨 hammer build|⚙️ gear settings|🛠️ tools|🧰 toolbox|🧪 test tube experiment|🐛 bug|🐞 ladybug|🤖 robot agent|💻 laptop computer|🖥️ desktop|📱 phone mobile|⌨️ keyboard|🖱️ mouse|💾 floppy save|📦 package box ship|🚢 ship|🚗 car|✈️ plane travel|🏠 home house|🏢 office|🌍 world earth|☀️ sun|🌧️ rain|⛈️ storm|❄️ snow|🌈 rainbow|🌱 seedling grow|🌳 tree|🍀 clover luck|🌸 blossom|☕ coffee|🍵 tea|🍺 beer|🍷 wine|🍕 pizza|🍔 burger|🌮 taco|🍎 apple|🍌 banana|🍿 popcorn|🍪 cookie|🐶 dog|🐱 cat|🦊 fox|🐻 bear|🐼 panda|🦁 lion|🐸 frog|🐵 monkey|🙈 see no evil monkey|🦄 unicorn|🐢 turtle slow|🐌 snail slow|🐙 octopus|🦀 crab rust|🐍 snake python|🐳 whale docker|🐘 elephant postgres|🎯 target dart goal|🎲 dice|🎮 game|🎵 music|🎧 headphones|🎨 art design palette|📷 camera|🎬 movie action|💸 money fly|💰 money bag|💎 gem|⚡ zap lightning fast|➕ plus|➖ minus|➡️ arrow right|⬅️ arrow left|⬆️ arrow up|⬇️ arrow down|🔄 refresh retry|🔁 repeat|🔗 link|♻️ recycle|🏁 finish flag|🚩 red flag|🏳️ white flag|💤 zzz sleep|💬 speech chat|🗨️ speech bubble|👤 person|👥 people team|🧑‍💻 developer coder|🕵️ detective|🧙 wizard magic|🦸 hero|👻 ghost|💀 skull dead|👽 alien|🎃 pumpkin|🎄 christmas tree`;

export interface Emoji {
  char: string;
  /** Names separated by blanks; the first is the one shown. */
  names: string;
}
export const EMOJI: readonly Emoji[] = LIST.split('|').map((entry) => {
  const at = entry.indexOf(' ');
  return { char: entry.slice(0, at), names: entry.slice(at + 1) };
});

export function searchEmoji(query: string, max: number): Emoji[] {
  const q = query.trim().toLowerCase();
  if (!q) return EMOJI.slice(0, max);
  const score = (e: Emoji) => {
    const words = e.names.split(' ');
    if (words[0] === q) return 0;
    if (words[0]!.startsWith(q)) return 1;
    if (words.some((w) => w.startsWith(q))) return 2;
    return e.names.includes(q) ? 3 : 9;
  };
  return EMOJI.map((e) => ({ e, s: score(e) }))
    .filter((x) => x.s < 9)
    .sort((a, b) => a.s - b.s)
    .slice(0, max)
    .map((x) => x.e);
}
