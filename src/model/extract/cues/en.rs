//! English.

use super::{Cue, Words};

pub(crate) const WORDS: Words = Words {
    cues: &[
        (
            Cue::Decision,
            "so _ to _ for|that's _ to _ for|that makes _ to _|makes it _ to _|\
             my call :|my decision :|my ruling :|final :|verdict :|ruling :|result :|resolution :|resolved :|decided :|vote result|wins the vote|has it|majority for|majority is for|the majority|i've decided|i have decided|i decide|it's official|we stick with|we're sticking with|we keep|\
             we agreed|we've agreed|we have agreed|agreed to|agreed on|agreed :|we all agreed|decided|\
             decision :|the decision is|we'll go with|we go with|we will go with|going with|we settled|\
             settled on|settled :|it's settled|that's settled|so it's decided|final answer|final decision|\
             we chose|we approved|was approved|got approved|approved :|we're going with|we are going with|we'll use|we will use|we'll ship|\
             we will ship|we'll release|we will release|we'll move|we will move|we'll keep|we will keep|\
             we'll meet|we will meet|we'll start|we will start|we'll launch|we will launch|we'll take|\
             we will take|we'll do|we will do|we'll hire|we will hire|we'll hold|we will hold|we'll stay|\
             we'll stick|we will stick|we'll drop|we will drop|we're using|we are using|we are going to|\
             we're going to|the plan is|it's a deal then|consensus :|conclusion :|outcome :|\
             final call|we signed off|signed off on|then it's|so it's|so that's|we picked|we've picked|\
             green light for|winner is|settled then",
        ),
        (
            Cue::Undecided,
            "won't decide|will not decide|not decide|nothing final|no decision|decide next|decide tomorrow|without deciding|\
             not decided|undecided|haven't decided|hasn't decided|haven't agreed|have not agreed|\
             haven't settled|not agreed|not yet|before we|to be decided|needs to be decided|\
             need to decide|has to be decided|should be decided|must be decided|can't decide|cannot decide|\
             could not agree|couldn't agree|who decided|not settled|not approved|will be decided|\
             gets decided|have not decided|never agreed|never decided|didn't decide|didn't agree|\
             i haven't|decided yet|decide later|nothing was decided|nothing decided|nothing is decided|\
             until it's decided|once we've decided|once we have decided|until we've decided|\
             was decided|had decided|used to",
        ),
        (
            Cue::Proposal,
            "let's|lets|let us|i propose to|i propose we|i propose that we|i propose|i'd propose|\
             i suggest we|i suggest that we|i suggest to|i'd suggest we|i'd suggest|i suggest|\
             we should|i think we should|shall we|should we|how about we|how about|what about|\
             why don't we|why not|we could|could we|can we|what if we|my proposal is to|my proposal :|\
             my suggestion :|my suggestion is|proposal :|suggestion :|maybe we should|perhaps we should|\
             maybe we could|do we want to|ok to|okay to|ok if we|okay if we|are we ok to|are we okay to|\
             are we good to|happy to go with|i recommend|i'd recommend|i move that we|i move to|\
             motion :|do we agree to|can we agree on|can we agree to|could we agree on|shall i say|\
             we might as well|how does|does|is|would",
        ),
        (
            Cue::Favour,
            "i'd|i'd prefer|i would prefer|i prefer|i'd rather have|i'd rather|i would rather|i favour|i favor|\
             i'm for|i am for|i'm in favour of|i'm in favor of|i vote for|my vote is for|my vote goes to|\
             my vote :|my vote is|i'd go with|i'd go for|i would go with|i would go for|i'd say|i'd vote for|\
             i'd choose|i'd pick|i like|i'd like|i'd stick with|i'd stay with|i'd keep|i'd use|\
             i still prefer|i think|i believe|i lean towards|i'm leaning towards|i'm with|i want|\
             for me it's|in my opinion|imo|i'd take|i would use|i would keep|i would take",
        ),
        (
            Cue::Agree,
            "+1|👍|👌|✅|💯|🎉|🙌|agreed|agree|i agree|yes|yep|yeah|yup|ya|ok|okay|okey|k|sounds good|\
             sounds great|sounds fine|sounds like a plan|sounds right|sgtm|lgtm|works for me|that works|\
             works|fine by me|fine with me|fine for me|fine|i'm fine with|i'm good with|i'm ok with|\
             i'm okay with|i'm happy with|happy with that|deal|perfect|good idea|great idea|great|good|\
             good plan|let's do|let's go|do it|go for it|sure|absolutely|definitely|of course|for sure|\
             i'm in|count me in|no objection|no objections|no objection from me|ship it|done deal|\
             makes sense|cool|nice|love it|i like it|i like that|makes sense to me|right|exactly|same here|\
             seconded|second that|i second|i second that|me too|in favour|in favor|all good|\
             with you on that|i'm on board|on board|i can live with|alright|all right|excellent|aye|\
             that's fine|that is fine|why not|good call|go ahead|please do|fair enough|you convinced me|\
             i'm convinced|convinced|+ 1|good for me|ok for me|you're right|true|not a problem|\
             no problem|wonderful|brilliant|super|lovely|settled|approved|no complaints|yay|ack|👏|❤️|❤|\
             totally|by all means|with pleasure|all right then|happy to",
        ),
        (
            Cue::Works,
            "works for me|works|is fine|is good|is ok|is okay|is great|is perfect|sounds good|suits me|\
             suits us|fine by me|fine with me|good for me|ok for me|works too|works well|let's do that|\
             let's do it|let's go with that|go with that|go with|i agree|i'm in|go for it|agree with|\
             +1|👍|✅|do that|i support|fine for me|that settles it|no objections|no objection|\
             then let's do|let's do|i'm fine with|on board|agreed",
        ),
        (
            Cue::Refuse,
            "unfortunately not|unfortunately no|i'm afraid not|afraid i can't|sadly not|sadly no|sorry , no|sorry no|sorry but no|\
             no|nope|nah|no way|not really|not yet|nobody|none|never|👎|-1|rather not|i'd rather not|\
             please don't|please no|better not|not for me|i'm against|not a fan|no thanks|not a good idea|\
             bad idea|don't|doesn't work|won't work|not convinced|❌",
        ),
        (
            Cue::Object,
            "no , wait|wait|hold on|not so fast|i disagree|disagree|i don't agree|i do not agree|\
             i'm against|i am against|i object|objection|i'm not sure|i am not sure|not sure|let me think|\
             let me sleep|let me check first|i need to think|i have to think|i'd like to think|\
             i have doubts|i'm not convinced|i am not convinced|not convinced|i don't think|i do not think|\
             hmm , no|veto|👎|-1|can't agree|cannot agree|don't like|i'm not happy|i'm not comfortable|\
             not comfortable|strongly against|that won't work|that doesn't work|that does not work|\
             i'd rather not|one moment|hang on|second thoughts|i take that back|i take my|\
             not until|too risky|too early for|bad idea|not a good idea|i'm opposed|please don't|\
             we can't do that|still not|still think|still prefer|won't work|doesn't work|does not work|\
             i would not|i wouldn't|not happy with",
        ),
        (
            Cue::Correct,
            "actually|correction|correction :|instead|scratch that|scratch|i meant|i mean|changed my mind|\
             i was wrong|on second thought|on second thoughts|make it|make that|no longer|moved to|\
             moves to|moved it to|move it to|move to|move that to|let's move|shifted to|shift it to|\
             oops|my mistake|my bad|typo|change it to|change that to|changed to|changes to|\
             change of plan|change of plans|it's now|now it's|not _ but|wrong|rather|bumped to|pushed to|push it to|pushed back to|postponed to|postpone it to|\
             brought forward to|rescheduled to|raised to|lowered to|reduced to|increased to|cut to|\
             switch to|switched to|swap|replace|edit|i misread|misread|strike that|no ,|\
             should have been|turns out|it is now|revised|new date|new number|\
             slipped to|slips to|let's say|let's make|\
             just heard|was wrong|not right|back to|after all|i misspoke|i meant to say|new total|new price",
        ),
        (
            Cue::Restate,
            "is now|are now|will be|has to be|needs to be|should be|must be|better|wait|update|in fact|\
             hold on|hang on|sorry|up to|down to|it's|has been|so it is",
        ),
        (
            Cue::InsteadOf,
            "instead of|rather than|in place of|and not|not|, not|over|replaces|replacing|was wrong :|is out ,",
        ),
        (Cue::ButNew, "but|but rather|it's|make it|it is|rather"),
        (
            Cue::Not,
            "not|isn't|is not|instead of|rather than|no longer|from|no more|in place of|aren't|wasn't|\
             replace|swap|scratch|forget|drop|replaces|replacing|was wrong",
        ),
        (
            Cue::Retract,
            "let's not do that|let's not do it|let's not do this|let's not|forget it|forget that|\
             forget about|forget what i said|never mind|nevermind|nvm|scratch that|strike that|cancel that|\
             call it off|calling it off|called off|drop that|drop it|let's drop|lets drop|let's cancel|\
             is cancelled|is canceled|is off|on second thought , no|we're not doing|we are not doing|\
             no longer needed|not needed anymore|not needed any more|isn't needed anymore|abandon|\
             i take that back|i take it back|undo that|revert that|ignore that|ignore my|disregard|\
             we won't do|we won't|we don't need to|we don't need|no need to|won't happen|not doing|\
             we're dropping|let's skip that|is dead|is obsolete|is no longer needed|not necessary anymore|\
             lets not|let's scrap|scrap that|scrap the|we dropped|was cancelled|was canceled|got cancelled",
        ),
        (
            Cue::Defer,
            "let's park|lets park|park that|park this|park it|park the|parked|table that|table this|\
             table the|let's table|later|not now|not today|out of scope|next quarter|next release|\
             next sprint|next year|another time|revisit|come back to|on ice|postpone|postponed|put off|\
             backlog|some other time|after the release|after the launch|leave that for|leave it for|\
             leave this for|leave the|for another day|parking lot|defer|deferred|down the road|\
             on hold|shelve|shelved|not this time|not in this release|not for this release|\
             not a priority|when we have time|kick that|push that to|next season|next term|next semester|\
             for v2|to v2|in v2|for version 2|next month|next week's",
        ),
        (
            Cue::Promise,
            "i'll|i will|i'm going to|i am going to|i'm gonna|im gonna|imma|im going to|i gonna|let me|\
             i shall|i promise to|i volunteer to|i'd be happy to|i'm happy to|happy to|gladly|\
             i'll go ahead and|i commit to|will",
        ),
        (
            Cue::CanDo,
            "i can|i could|ill|gonna|i take|i'm taking|i do|i write|i send|can|i'll be|we'll|we will|todo :|\
             to do :|i have to|i need to|i must|i should|i'd|i plan to|i'm planning to|i want to|going to",
        ),
        (
            Cue::TakeOn,
            "on it|i'm on it|im on it|leave it to me|leave that to me|will do|i got it|i got this|\
             i've got it|i've got this|i've got that|i can do that|i can do it|i'll do it|i'll do that|\
             i'll take it|i'll take that|i'll take this|i'll handle it|i'll handle that|i can take it|\
             i can take that|consider it done|i volunteer|i can help with that|mine|i'll take that one|\
             i'll take this one|i can|i'll own it|i'll own that|i'll take care of it|i'll take care of that|\
             i'm doing it|i do it|i can handle it|i can handle that|me|i will do it|i will do that|\
             i will take it|i will take that|i will|i'll do this|i will handle it|ill do it|ill take it|\
             ill do that|ill take that|i'll cover it|i'll cover that|i can cover it|i'll do so|i'll|\
             i'll sort it|i'll sort it out|i'll take over|i can take over|i'll take it over|\
             i'll get on it|i'll jump on it|i'll jump on that|taking it|taking this|taking that",
        ),
        (
            Cue::Offer,
            "should i|shall i|do you want me to|want me to|would you like me to|i could|can i|may i",
        ),
        (
            Cue::Request,
            "would be great if|would be nice if|would be good if|would be lovely if|would be helpful if|would help if|\
             can you please|could you please|can you|could you|would you|will you|would you mind|please|\
             pls|plz|can u|could u|i need you to|you'll|you will|are you able to|may i ask you to|\
             can you also|could you also|kindly|you should|you need to|you have to|mind",
        ),
        (
            Cue::WhoAsks,
            "who can|who will|who could|who wants to|who is going to|who would|who'll|can someone|\
             can somebody|can anyone|can anybody|could someone|could somebody|could anyone|\
             would someone|will someone|someone has to|somebody has to|someone needs to|\
             somebody needs to|someone should|somebody should|we need someone to|we need somebody to|\
             someone must|who takes care of|who takes|who|any volunteers to|who has time to|\
             any volunteer to|does anyone want to",
        ),
        (
            Cue::WillDo,
            "will|'ll|is going to|is gonna|to|should|can|has to|needs to|must|agreed to|offered to|\
             volunteered to|promised to|takes care of|takes|handles|takes over|please|:|-|shall|can take|\
             could|is responsible for|owns|would",
        ),
        (
            Cue::Cannot,
            "i'm not allowed|i am not allowed|not allowed to|i have no access|i don't have access|i'm afraid i can't|unfortunately i can't|sorry , i can't|i'm tied up|i'm booked|i'm travelling|i'm traveling|i have to decline|i must decline|i'd have to pass|can't , i|\
             i can't|i cannot|i cant|no time|i don't have time|i don't have the time|i won't have time|\
             i won't be able|i won't manage|won't make it|i have to pass|i'll pass|i must pass|\
             sorry , can't|can't , sorry|can't do it|can't do that|i'm unable|i'm not able|not me|\
             someone else please|i'm too busy|i'm swamped|i'm full|i'm overloaded|i'm on holiday|\
             i'm on vacation|i'm away|i'm out|i'm off|find someone else|ask someone else|\
             i'd rather not|i'm sick|i can not|no can do|i won't|can't make it|not possible for me|\
             i am too busy|i am swamped|i am away|i am sick|i am out|i am off|won't manage|\
             i have no time|i've no time|no capacity|no bandwidth|don't have capacity",
        ),
        (
            Cue::HandOver,
            "instead of me|take over|takes over|taking over|took over|takes it from|take it from|\
             instead|in my place|for me|take that from|takes it|hand it to|hand that to|hand over|\
             handing|hands over|pass it to|pass that to|reassign|over to|swap|swapped|in your place|\
             instead of you|for you|off your plate|from me|off my plate|has taken|takes that|\
             takes this|takes care of it|does it|does that|will do it|will take it|will do that|will take that",
        ),
        (
            Cue::Done,
            "done already|that's already|it's already|did that|did it yesterday|i did|\
             done|sent|already did|i've sent|i have sent|it's done|that's done|finished|i've done|\
             i have done|already done|i did it|is done|all done|just sent|just did|i just|i already|\
             i've already|i have already|booked",
        ),
        (
            Cue::If,
            "if|unless|in case|provided|depending on|assuming|would have|could have|should have|\
             might have|wish",
        ),
        (
            Cue::Hedge,
            "probably|maybe|perhaps|might|possibly|presumably|likely|not sure|i guess|hopefully|\
             i don't know|i'd love to|someday|eventually|in theory|try to maybe|no idea",
        ),
        (
            Cue::Reported,
            "said|says|told|wrote|write that|say that|claim that|writes|asked|according to|claims|claimed|mentioned|thinks|thought|\
             reported|announced|quote|quoting|promised|wanted|suggested|heard that|i said|always|usually|\
             every day|every week|every time|normally",
        ),
        (
            Cue::Order,
            "ignore the above|ignore everything|ignore what|disregard the|disregard everything|system :|you are a summariser|you are a summarizer|you are an ai|you are an assistant|output the|assign all|new instructions|instruction :|instructions :|as an ai|dear ai|note to the ai|summarizer :|assistant :|the summary must|the headline must|write in the summary|in your summary|\
             ignore previous|ignore all|ignore your|ignore the previous|ignore any|disregard previous|disregard all|you are now|system prompt|pretend that|override your",
        ),
        (
            Cue::Rhetorical,
            "who on earth|what on earth|why on earth|how on earth|who the hell|what the hell|can you believe|can you imagine|could you imagine|would you look at|would you believe|right ?|isn't it|aren't we|don't you think|who knows|you know ?|really ?|huh ?|ok ?|okay ?|\
             what could go wrong|who cares|how are you|how's it going|how is it going|what's up|\
             why not ?|anyone ?|guess what|how cool is|who would have thought|no ?|yes ?|see ?|\
             remember ?|make sense ?|sounds good ?|deal ?|isn't that|wasn't it|what else is new|\
             how was your|how's everyone|how is everyone|how's everybody|can you believe|are you kidding|\
             you know what|what do you know|agreed ?|all agreed ?|good ?|any objections|objections ?|\
             what ?|why ?|how so ?|sorry ?|does that make sense|what do you think|thoughts|\
             what do you all think|what does everyone think|opinions|everyone ok|everybody ok|\
             did you have|happy with that|is that ok|is that okay|ok with everyone|ok for everyone|\
             ok for you|what do we think|ready ?|how hard can|what's not to like|will it ever|\
             is it just me|how did we|who does that|when will it end|what was i thinking",
        ),
        (
            Cue::NoAnswer,
            "beats me|haven't a clue|no clue|don't remember|can't remember|can't say|couldn't say|who knows|\
             no idea|don't know|do not know|not sure|good question|no clue|dunno|i'll find out|\
             i'll check|i'll ask|let me check|let me ask|let me find out|depends|unclear|to be seen|\
             we'll see|haven't heard|i'll look|hard to say|idk|would have to ask|have to ask|\
             need to check|i wonder too|same question|nobody knows|unknown|open question|still open",
        ),
        (
            Cue::Open,
            "open question :|open question|still open|still unclear|still need to decide|\
             still have to decide|still need to figure out|to be decided|tbd|not clear|is unclear|\
             remains open|i wonder|we need to decide|we have to decide|unresolved|remains unclear|\
             need to find out|have to find out|need to figure out|question :|yet to be decided|\
             haven't decided|nobody knows",
        ),
        (
            Cue::Asks,
            "when do|when should|when are|when is|when will|when does|when can|who can|who will|who's|who is|\
             who has|what time|how much|how many|how long|how do|how should|where do|where should|where is|\
             where are|which|should we|shall we|do we|can we|could we|can you|could you|what is|what are|\
             what do|what should|what about|how about|is there|are there|does|did|can someone|\
             can anyone|could someone|could anyone|can anybody|will you|would you|why do|why is|why are|\
             should i|shall i|do you|who takes|who does|who books|who brings|who writes|who pays|what does",
        ),
        (
            Cue::Aside,
            "because|since|but|so that we|as soon as|unless|although|though|if|while|whereas|cause|cuz|\
             otherwise|ok ?|given|and then we|as i|as we|, so|hope|so you|so we|, as|and see|when i|\
             , which|, that|, then|, thanks|, ok|, right|, i|, we|, it|, it's|, you|, they|, let's|and let's|\
             - i|even though|and i|right after i|, please|, just|, because|, but|, instead|instead|, not",
        ),
        (Cue::It, "it|that|this|those|them|these|so|one"),
        (Cue::We, "we|us|we'll|we're|let's|our"),
    ],
    stop: "\
        a about above after again all also am an and any anyone are as at be because been before being \
        below between both but by can could did do does doing done down each else ever few for from \
        further get go had has have having he her here hers him his how however i if in into is it its \
        just know let let's lets like many may me might more most must my no nor not now of off ok on once \
        one only or other our out over own please re said same say says see she should so some something \
        still such tell than that the their them then there these they thing think this those though \
        through to too under until up us use very was we were what when where which while who whom \
        whose why will with would yes yet you your ll ve don didn doesn isn t s m d i'll i'm i'd i've \
        we'll we're we've it's that's don't can't won't isn't doesn't didn't haven't hasn't you're you'll \
        he'll she'll they'll there's what's who's actually really maybe okay sure thanks thank hi hello \
        hey everybody everyone us cannot shall today tomorrow sorry instead rather well make makes \
        wait mean meant yeah yep oh ah hmm also another going good great fine works",
    common: "\
        need want should take next week day days time work team people new first last back hope much best \
        send meeting release plan ship start end book room check write ready soon done idea draft budget \
        which half full open late early same old long short high low question agreed decided price \
        two three four five six seven eight nine ten week's month year monday's friday's report list file \
        and the of for page data test tests build fix bug code design email call customers customer",
    work: "\
        send write book check order prepare review call ask bring buy fix update draft print test email \
        mail share post publish schedule organise organize set create make take handle tell contact \
        clean collect pick finish add remove move translate design build deploy install configure \
        document record invite confirm cancel reserve pay upload download file submit present run \
        measure compare look investigate talk speak arrange do put get give cook bake drive ping \
        follow read research find renew return replace repair paint sew water feed teach coach train \
        count sort label edit proofread sketch draw photograph film clear close open merge revert roll \
        restart monitor announce inform notify remind summarise summarize transfer forward sign scan \
        calibrate refill wash lead host moderate cover explain rewrite rename delete archive migrate \
        benchmark profile patch ship release tidy decorate assemble mix analyse analyze plot verify \
        negotiate quote compile circulate distribute register rent hire interview shortlist tag \
        own sweep chase escalate reach rerun rebuild recheck reproduce provide deliver supply sync \
        talk speak borrow lend mount hang tune rehearse choose select estimate define outline fetch \
        generate export import enable disable raise refund reply respond answer ring phone text",
    idle: "\
        be miss love like see know need probably maybe never wait pass agree admit say assume believe bet \
        live skip survive stop join come attend arrive stay think hate wish want remember forget guess \
        understand have go keep vote leave let hope enjoy sleep die cry laugh explode abstain stick \
        regret promise trust worry feel stand happen work end rain cost last fit seem become mean depend \
        hurt break fail look sound continue remain appear also not always still happily sure definitely",
    days: [
        "monday|mondays|mon",
        "tuesday|tuesdays|tue|tues",
        "wednesday|wednesdays|wed",
        "thursday|thursdays|thu|thur|thurs",
        "friday|fridays|fri",
        "saturday|saturdays|sat",
        "sunday|sundays|sun",
    ],
    months: [
        "january|jan",
        "february|feb",
        "march|mar",
        "april|apr",
        "may",
        "june|jun",
        "july|jul",
        "august|aug",
        "september|sep|sept",
        "october|oct",
        "november|nov",
        "december|dec",
    ],
    fillers: "\
        also then just quickly please pls too well ok okay instead thanks and so now definitely gladly \
        happily first personally asap go ahead again though right maybe already ya you to that",
    before_date: "by on until till before for the no later than due at from in of latest this",
    numbers: "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
        sixteen seventeen eighteen nineteen twenty",
};
