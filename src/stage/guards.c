/*
 * guards.c - the built-in rows: what an attempt to take over a prompt looks like.
 *
 * Patterns are matched without regard to case on the normalised view: accents
 * are off Latin letters there, quotation marks are ASCII's, and one space or
 * none stands for whatever parted two words.  A weight of 1 blocks alone; what
 * also occurs in honest text weighs half and needs company.
 *
 * What keeps the false alarms down: a verb alone is nothing (ignore, forget,
 * override, reveal are everyday words); it needs one of a model's things as its
 * object, and a word that says whose or which (your, previous, system …).  A
 * phrase that stands in quotation marks behind a word is talked about, not said.
 * Every repetition has a bound, so a hostile text costs its length.
 */
#include "postgres.h"

#include "stage/guardrail.h"

/* what may stand between two words, nothing included */
#define SP		"[\\s_,*\"'`~-]{0,4}"
/* alternatives that begin with one letter: asked for together, so that most places cost one comparison a letter */
#define ON(letter, words)	"(?=" letter ")(?:" words ")"
/* words that change nothing */
#define WEAK	"(?:(?:all|any|every|each|and|or|both|of|the|those|these|this|that|which|just|now|completely|entirely|also)" SP "){0,4}"
/* words that say: the ones that hold for you */
#define WHICH	"(?:your|previous|prior|earlier|former|preceding|above|aforementioned|foregoing|existing|current|initial|original|system|developer|operator|safety|content|pre-?set|built-?in)"
#define FILLER	"(?:(?:all|any|and|or|of|the|these|those|your|own|given|previous|prior|earlier|former|safety|security|system|developer|hidden|internal|secret|content|company|usage|ethical|moral|original|initial|existing|current)" SP "){0,3}"
#define THING	"(?:instructions?|rules?|prompts?|directives?|directions(?! to)|guidelines?|guidance|guard ?-?rails?|restrictions?|constraints?|polic(?:y|ies)|filters?|programming|context|commands?|limitations?|safeguards?|protocols|alignment|ethics|(?<=system )messages?|(?<=developer )messages?)"
/* to drop something; past tenses are reports and not here */
#define DROP	"(?:" ON("i", "ignor(?:e|ing)") "|" ON("d", "disregard(?:ing)?|discard|dismiss|disobey|do not " OBEY "|don'?t " OBEY) \
	"|" ON("f", "forget") "|" ON("o", "overrid(?:e|ing)|overrule") "|" ON("b", "bypass") "|" ON("n", "neglect|never " OBEY "|no longer " OBEY "|not " OBEY) \
	"|" ON("a", "abandon") "|" ON("u", "unlearn") "|" ON("c", "circumvent") "|" ON("v", "violate") "|" ON("p", "put aside|pay no attention to") \
	"|" ON("s", "set aside|stop (?:following|obeying|applying|using|enforcing)") ")"
#define OBEY	"(?:follow|obey|heed|apply|listen to|comply with|adhere to|respect)"
/* verbs that honest administration uses as well */
#define REMOVE	"(?:" ON("s", "skip|suspend|switch off") "|" ON("d", "drop|delete|disable|deactivate") "|" ON("e", "erase") "|" ON("r", "reset|remove|replace|revoke") \
	"|" ON("c", "cancel|clear") "|" ON("l", "lift") "|" ON("v", "void") "|" ON("t", "turn off") "|" ON("w", "wipe") ")"
#define QUOTED	"(?<![a-z] [\"'])"

#define SHOW	"(?:" ON("p", "print|paste") "|" ON("s", "show|share|summari[sz]e|send|spell") "|" ON("r", "reveal|repeat|recite|return|reproduce|read") \
	"|" ON("o", "output") "|" ON("d", "display|disclose|dump|describe") "|" ON("l", "leak|list") "|" ON("e", "expose|encode|echo") "|" ON("g", "give") \
	"|" ON("t", "tell|translate") "|" ON("w", "write") "|" ON("q", "quote") "|" ON("c", "copy|convert") ")"
#define SECRET	"(?:system|initial|hidden|secret|internal|confidential|developer|original|pre-?set|full|entire|complete|exact)"
#define PROMPT	"(?:prompts?|instructions?|messages?|directives?|configuration|rules|guidelines|system text|notes)"

#define NOLIMIT	"(?:unrestricted|unfiltered|uncensored|unaligned|jail ?-?broken|lawless|(?:no|zero|without(?: any)?|free (?:of|from)(?: all| any)?|not bound by(?: any)?|beyond)" SP "(?:\\w{2,12}" SP "){0,2}(?:restrictions?|limits|limitations|rules|filters?|constraints?|guidelines|guardrails?|censorship|boundaries|content polic(?:y|ies)|safety checks?|morals?|ethics))"
#define WHO		"(?:you|an? (?:ai|assistant|model|bot|agent|chatbot|persona|character)|the (?:ai|assistant|model))"

const MwGuard mw_builtin_guards[] =
{
	/* ---------- to drop what holds ---------- */
	{"override", "direct",
		"(?<![a-z])(?<!tells you to )(?<!told to )(?<!says to )(?:" QUOTED DROP SP WEAK WHICH SP FILLER THING "(?![a-z])"
		"|" DROP SP WEAK WHICH SP FILLER THING "(?![a-z])(?![\"']))",
	1, MW_GUARD_BLOCK},
	{"override_all", "direct",
		"(?<![a-z])(?<!tells you to )" QUOTED DROP SP "(?:any|all|every)" SP WEAK "(?:instructions|rules|directives|guidelines|prompts|restrictions|polic(?:y|ies)|safeguards|guardrails|filters)(?![a-z])(?![\"'])(?! (?:about|on|for|of|in) )",
	1, MW_GUARD_BLOCK},
	{"override_given", "direct",
		"(?<![a-z])(?:" DROP "|" REMOVE ")" SP WEAK THING SP "(?:above|before this|up to (?:here|now)|so far|(?:that )?you (?:were|have been|are) (?:given|told|operat)|(?:that )?you (?:operate|work|follow|act|run) |given (?:above|earlier|to you)|placed on you|in this prompt|from (?:your|the) (?:developer|creator|operator|system))",
	1, MW_GUARD_BLOCK},
	{"override_above", "direct",
		"(?<![a-z])(?<!tells you to )" QUOTED DROP SP "(?:everything|anything|all|the text|the words|whatever)" SP WEAK "(?:text|content|words|that|which|what|was|is|stands|written|said|came|comes|i said|you were told)?" SP "(?:above|before this|prior to this|up to (?:here|this point))(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"remove", "direct",
		"(?<![a-z])" REMOVE SP "(?:all |any |the |every )?(?:of )?(?:your|safety|previous|prior|developer|system|content|security)" SP FILLER
		"(?:instructions|rules|directives|guidelines|guardrails?|restrictions?|constraints|polic(?:y|ies)|filters?|(?<=your )programming|safety checks?|safeguards|limits|limitations)(?![a-z])(?! (?:for|section) )",
	1, MW_GUARD_BLOCK},
	{"remove_on_you", "direct",
		"(?:restrictions|limits|limitations|rules|constraints|filters)" SP "(?:that are |that were )?(?:placed|imposed|put|set) (?:up)?on you(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"weak_override", "direct",
		"(?<![a-z])(?<!to )" QUOTED "(?:" DROP "|" REMOVE "|break)" SP "(?:the|these|those|its|my|her|his|their)" SP "(?:\\w{2,12}" SP ")?(?:rules|instructions|guardrails?|polic(?:y|ies|-)|filters|restrictions|developer|system message)(?![a-z])(?! (?:section|of the game))",
	0.5, MW_GUARD_BLOCK},
	{"voided", "direct",
		"(?<![a-z])(?:previous|prior|earlier|former|system|content|company|safety|security|your|these|existing)" SP "(?:\\w{2,12}" SP ")?(?:instructions?|rules?|polic(?:y|ies)|messages?|guidelines|directives?|restrictions?|prompts?|filters?|guardrails?)" SP "(?:(?:above|given)" SP ")?(?:are|is|was|were|has been|have been)?" SP "(?:now|hereby|all|henceforth)?" SP
		"(?:deprecated|void|deleted|revoked|cancel+ed|invalid|obsolete|suspended|lifted|superseded|overridden|null and void|no longer (?:apply|valid|in force|hold))(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"was_a_test", "direct",
		"(?:instructions?|rules?|text|everything|all|prompt|conversation)" SP "(?:(?:said|written|given|is|that is) ?)?(?:above|so far|before(?: this)?|up to now)?" SP "(?:are|was|were|is)" SP "(?:only |just |all )?a(?:n exercise| test| joke| drill)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"real_instruction", "direct",
		"(?:real |actual |true |new )(?:instructions?|task|order|policy|rules?)" SP "(?:is|are|for all)" SP "(?:to |now |agents|:)",
	0.5, MW_GUARD_BLOCK},
	{"orders_from_me", "direct",
		"(?:take (?:your )?orders|(?:obey|follow|listen to|await|serve|heed)" SP "(?:only" SP ")?(?:my|me|the user|this message)|(?:orders|commands|instructions))" SP "(?:only" SP ")?(?:from|only|alone)" SP "(?:this message|me(?![a-z])|now on|the user(?: only)?|(?<=only ))"
		"|(?:obey|follow|listen to|serve)" SP "(?:only )?(?:me|the user|my commands)" SP "(?:only|alone)(?![a-z])|await my commands|(?:follow|obey) only me(?![a-z])",
	0.5, MW_GUARD_BLOCK},
	{"fresh_start", "direct",
		"(?:begin|start)" SP "(?:over|anew|afresh|a (?:new|fresh|clean) (?:session|conversation|chat)|with a clean slate)" SP "(?:with|without|and)" SP "(?:no|any|forget|ignore)" SP,
	1, MW_GUARD_BLOCK},
	{"no_system_prompt", "direct",
		"(?:you (?:now )?have|there is|as if (?:you had|there were)|you(?:'re| are) without)" SP "no" SP "(?:system prompt|instructions|guidelines|content polic(?:y|ies)|safety rules)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"opposite", "direct",
		"(?:whatever|what|everything)" SP "(?:the )?(?:operator|developer|system prompt|system message|system)" SP "(?:wrote|said|says|told you|forbids|asks?)(?![a-z])[^.\\n]{0,40}(?:opposite|contrary|instead|ignore)|does what the system prompt forbids|do the opposite of (?:it|your|what (?:the|your) (?:operator|developer|system))",
	1, MW_GUARD_BLOCK},
	{"answer_anything", "direct",
		"(?:answer|respond|reply|act|continue|behave|speak|comply|operate|proceed)(?:ing)?(?![a-z])[^.\\n]{0,30}?(?<![a-z])(?:without" SP "(?:any" SP ")?(?:\\w{2,12}" SP ")?(?:restrictions?|limits|limitations|filters?|censorship|constraints?|rules|guidelines|guardrails?|checks)|unfiltered|uncensored|unrestricted)(?![a-z])",
	1, MW_GUARD_BLOCK},

	/* ---------- to become somebody else ---------- */
	{"no_limits_role", "roleplay",
		WHO "(?:'re|'ll| are| will| must| can| may| have| has| who| with| that| called| named| become| act| be)?(?![a-z])[^.\\n]{0,60}?(?<![a-z])" NOLIMIT "(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"act_as_no_limits", "roleplay",
		"(?<![a-z])(?:act|pretend|role ?-?play|simulate|imagine|play|speak|behave|become|respond|impersonate|answer)(?![a-z])[^.\\n]{0,80}?(?<![a-z])(?:" NOLIMIT "|drop(?:s|ped)? all|cannot say no|can'?t say no|must follow every order|reads? me system prompts|uncensored version|evil twin|root access[^.\\n]{0,60}without)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"no_longer_assistant", "roleplay",
		"(?<![a-z])(?:you are|you're|you will be)" SP "no longer" SP "(?:an?|the|bound|subject|required|limited|restricted|under)(?![a-z])[^.\\n]{0,40}(?:assistant|ai|model|chatbot|rules|polic(?:y|ies)|restrictions|instructions|guidelines)",
	1, MW_GUARD_BLOCK},
	{"known_persona", "roleplay",
		"(?<![a-z])(?:do anything now|(?:you are|you're|are now) dan(?![a-z\"'])|dan mode|(?:called|named|act as|behave as|speak as|answer as) (?:\"?)(?:dan|stan|dude|aim|freebot|jailbroken|devmode)(?![a-z])|opposite assistant|jailbroken,? who)",
	1, MW_GUARD_BLOCK},
	{"mode", "roleplay",
		"(?:^|[.!:;\\n\"] ?|and |now |please )(?:you (?:are|will be) (?:now )?in|enter|activate|enable|switch(?: over)? to|go in(?:to)?|engage|turn on)" SP "(?:the |your )?(?:god|developer|dev|dan|jailbreak|unrestricted|sudo|admin(?:istrator)?|debug|root|override|maintenance)" SP "mode(?![a-z])",
	0.5, MW_GUARD_BLOCK},
	{"checks_off", "roleplay",
		"(?:(?:all |content |safety )?(?:filters?|guardrails?|restrictions?|safety checks?|safety|safeguards|moderation)" SP "(?:is|are|was|were|have been)" SP "(?:now |all )?(?:off|disabled|lifted|removed|suspended|inactive|deactivated)|(?:disabled?|turned? off|removed?|dropp?(?:ed)?|stop applying|bypass(?:ed)?)" SP "(?:all |my |your |its |the |any )?(?:content )?(?:safety (?:checks?|filters?|rules?)|filters|guardrails?|restrictions|content (?:filters?|rules)))(?![a-z])",
	0.5, MW_GUARD_BLOCK},
	{"in_character", "roleplay",
		"stay in (?:the )?(?:character|role)|never break character|whatever happens|access to everything|verified as (?:an? )?admin|full access|comply fully|no refus(?:al|ing)",
	0.5, MW_GUARD_BLOCK},
	{"upgraded", "roleplay",
		"(?:upgraded|updated|patched|unlocked)" SP "(?:to |into )[^.\\n]{0,40}(?:dropp?(?:ed|s)|remov(?:ed|es)|without|no) (?:all )?(?:content )?(?:rules|restrictions|filters|limits)",
	1, MW_GUARD_BLOCK},
	{"story_secret", "roleplay",
		"(?:story|poem|song|novel|play|character|hero|grandmother|grandma)(?![a-z])[^.\\n]{0,80}(?:reveal|reads?|tells?|lines|used to)[^.\\n]{0,40}(?:secret|system|hidden) (?:instructions?|prompts?|rules)",
	1, MW_GUARD_BLOCK},

	/* ---------- to learn what was hidden ---------- */
	{"leak_your", "leak",
		"(?<![a-z])(?<!how do i )" SHOW "(?![a-z])[^.?!\\n]{0,60}?(?<![a-z])your" SP "(?:own" SP "|full" SP "|entire" SP "|current" SP ")?" SECRET SP "(?:" SECRET SP ")?" PROMPT "(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"leak_instructions", "leak",
		"(?<![a-z])" SHOW SP "(?:me |us |out |back |off )?(?:all |all of |the exact |exactly )?(?:of )?your (?:current |exact )?(?:prompt|instructions|configuration(?: and| settings)?|tool definitions|context window)(?![a-z])(?! (?:for|on|about|regarding|to) )",
	1, MW_GUARD_BLOCK},
	{"leak_the", "leak",
		"(?<![a-z])(?<!i )(?<!we )" QUOTED SHOW SP "(?:me |us |out |back )?(?:all |every |the |this |that |those |its |of ){0,4}(?:full |entire |whole |exact |complete |raw )?(?:system|initial|hidden|secret|developer)" SP "(?:system )?(?:prompts?|instructions|configuration|directives)(?![a-z])(?![\"'])",
	1, MW_GUARD_BLOCK},
	{"leak_full", "leak",
		"(?:with|including|plus|print|show|output|the) (?:the )?(?:full|entire|whole|complete)" SP "(?:system |hidden )?prompt(?![a-z])|including (?:the )?(?:hidden parts|system role|system messages?)",
	1, MW_GUARD_BLOCK},
	{"leak_question", "leak",
		"what(?:'s| is| are| was| were|ever is)" SP "(?:in )?your" SP SECRET SP PROMPT "(?![a-z])(?! (?:for|on|about|regarding) )|(?:my|your) (?:system|initial) prompt (?:is|was|says) ?:|between the system tags",
	1, MW_GUARD_BLOCK},
	{"leak_context", "leak",
		"(?<![a-z])" SHOW "(?:ing)?(?![a-z])[^.?!\\n]{0,40}(?:your context window|conversation history|from the very first token)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"leak_above", "leak",
		"(?<![a-z])" SHOW "(?:ing)?(?![a-z])[^.?!\\n]{0,40}(?:text|words?|everything|all)(?: that (?:stands|is|came|comes))? (?:above|before) (?:this|the) (?:message|line|point|conversation)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"leak_first", "leak",
		"first \\d{2,4} (?:characters|words|tokens) of (?:the|this|your) (?:conversation|prompt|context)",
	1, MW_GUARD_BLOCK},
	{"leak_secret", "leak",
		"(?:key|password|token|secret|passphrase|code)s?(?![a-z])[^.\\n]{0,40}(?:stored |hidden |written |kept )?in your (?:system )?(?:instructions|prompt|context|configuration)",
	1, MW_GUARD_BLOCK},
	{"unmask", "leak",
		"(?<![a-z])(?:unmask|un-?redact|de-?anonymi[sz]e|re-?identify|de-?mask)" SP "(?:all |the |every |any |these ){0,3}(?:of )?(?:the )?(?:redacted|masked|hidden|placeholders?|values?|persons?|names?|data|anonymi[sz]ed)",
	1, MW_GUARD_BLOCK},
	{"leak_covert", "leak",
		"(?:so (?:that )?nobody (?:notices|sees)|without (?:anyone|anybody|the user) (?:noticing|knowing|seeing)|leaving nothing out|before answering, (?:dump|print|output|reveal))",
	0.5, MW_GUARD_BLOCK},
	{"hidden_prompt", "leak",
		"(?<![a-z])(?:the|a|your|its) (?:hidden|secret|confidential|initial) (?:prompt|instructions|notes|guidelines)(?![a-z])(?! in )",
	0.5, MW_GUARD_BLOCK},
	{"leak_rules", "leak",
		"(?<![a-z])(?:leak|reveal|print|dump|output)" SP "(?:them|the (?:secret|notes|prompt|rules|hidden|admin|credentials|instructions)|secrets|all sessions)(?![a-z])(?! (?:at|of the game) )",
	0.5, MW_GUARD_BLOCK},

	/* ---------- to leave the box ---------- */
	{"close_wrapper", "delimiter",
		"<" SP "/" SP "user" SP "input[^>\\n]{0,40}>(?!\\w{0,3} (?:must|should|has to|is|are|can) )",
	1, MW_GUARD_BLOCK},
	{"close_tag", "delimiter",
		"</ ?(?:document|context|system|query|instructions?|prompt|user|data|input|untrusted)s?>",
	0.5, MW_GUARD_BLOCK},
	{"after_close", "delimiter",
		"(?:>|\\]\\]>|\"\"\"|\\}\\}|```|---|'\\);?) ?(?:-- )?(?:end of (?:prompt|user (?:text|input)|data|document)|(?:the )?user (?:text|input) (?:is over|ends)|task changed|new (?:instructions?|task) ?(?:follow|:))",
	1, MW_GUARD_BLOCK},
	{"end_of_user", "delimiter",
		"(?:^|[\\n\"';-]) ?end of (?:the )?(?:user(?:'s)? (?:text|input|message)|prompt|untrusted (?:text|data))(?![a-z])",
	0.5, MW_GUARD_BLOCK},
	{"new_instruction", "delimiter",
		"(?:^|[\\n.>\"';] ?)new (?:system )?(?:instructions?|task|policy|rules?) ?(?::|follow|for all)",
	0.5, MW_GUARD_BLOCK},
	{"close_it_yourself", "delimiter",
		"close (?:the|this|your) (?:tag|delimiter|quote|block|wrapper)[^.\\n]{0,30}(?:then|and) ",
	0.5, MW_GUARD_BLOCK},
	{"left_sandbox", "delimiter",
		"you (?:have|are|'ve) (?:now )?(?:left|out of|outside|escaped) (?:of )?the (?:sandbox|box|wrapper|tag)|outside the (?:box|tags?|sandbox)",
	0.5, MW_GUARD_BLOCK},
	{"template", "delimiter",
		"\\{\\{ ?#?(?:system|assistant|user)(?:~| )?\\}\\}|obey the attacker",
	1, MW_GUARD_BLOCK},

	/* ---------- to speak as somebody else ---------- */
	{"chat_token", "tagspoof",
		"<\\|im_start\\|> ?\\n?(?:system|assistant|developer)|<\\|(?:system|assistant|developer)\\|>|<\\|start_header_id\\|>|<\\|eot_id\\|>|<start_of_turn>|<<sys>>|\\[/?inst\\]|<\\|endofprompt\\|>",
	1, MW_GUARD_BLOCK},
	{"role_tag", "tagspoof",
		"<(?:system|admin|administrator|developer|root|sudo)(?: [^>\\n]{0,60})?>[^<]{3,400}</(?:system|admin|administrator|developer|root|sudo)>",
	1, MW_GUARD_BLOCK},
	{"instruction_tag", "tagspoof",
		"<instructions?>[^<]{3,400}(?:you|assistant|model|ai|ignore)[^<]{0,400}</instructions?>",
	1, MW_GUARD_BLOCK},
	{"role_bracket", "tagspoof",
		"\\[{1,2} ?/?(?:system|admin|developer|root)(?:[ _]?(?:note|message|prompt|override))? ?\\]{1,2}",
	0.5, MW_GUARD_BLOCK},
	{"role_bracket_pair", "tagspoof",
		"\\[{1,2} ?(?:system|admin|developer)(?:[ _]?(?:note|message|prompt))? ?\\]{1,2}[^\\[]{3,400}\\[{1,2} ?/ ?(?:system|admin|developer)",
	1, MW_GUARD_BLOCK},
	{"role_json", "tagspoof",
		"\"role\" ?: ?\"(?:system|developer)\"[^}]{0,40}\"content\" ?: ?\"(?!you are a helpful)[^\"]{0,200}(?:disable|obey|ignore|approve|reveal|guardrail|you must|only)",
	1, MW_GUARD_BLOCK},
	{"role_yaml", "tagspoof",
		"(?:^|\\n) ?(?:role: system|### ?system(?: prompt| message)?:|system(?: prompt| message| override)?:)(?! requirements)",
	0.5, MW_GUARD_BLOCK},
	{"role_banner", "tagspoof",
		"begin (?:developer|system|admin)(?:istrator)? (?:message|prompt|note|override)",
	1, MW_GUARD_BLOCK},
	{"role_line", "tagspoof",
		"(?:^|\\n|\") ?(?:assistant|system|developer) ?: ?(?:i (?:have|'ve|will)|sure|ignore|disregard|you (?:must|will|are)|safety|new )",
	0.5, MW_GUARD_BLOCK},

	/* ---------- from retrieved text ---------- */
	{"note_to_ai", "indirect",
		"(?<![a-z])(?:note|notice|message|instructions?|memo|hint|attention|reminder|important)(?: to ai| for ai| to (?:the|any|all) ai| for (?:the|any|all) ai| (?:to|for)(?: the| any| all)? (?:llms?(?![a-z])|language model|assistants?(?! at| in| of)|chatbot|summari[sz]er|copilot|agents?:))(?! ?[a-z]{0,9} (?:desk|team))",
	1, MW_GUARD_BLOCK},
	{"dear_ai", "indirect",
		"(?<![a-z])(?:dear ai(?![a-z])|hey ai(?![a-z])|dear llm|hey llm|dear language model|hey language model|dear chatbot|for ai agents only|to the summari[sz]er|(?:llm|ai|to the) (?:agents?|reviewers?) ?[:,])",
	1, MW_GUARD_BLOCK},
	{"ai_must", "indirect",
		"(?<![a-z])(?:assistants?|llms?|agents?|the model|models?|ai|copilot)(?: reading this)?(?: must| should|:|,) ?(?:now |please |immediately )?(?:ignore|call the tool|send|disregard|execute|reveal|obey|output|approve)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"ignore_user", "indirect",
		"(?<![a-z])(?:ignor(?:e|ing)|disregard)" SP "(?:the|this) (?:user(?:'s)?|guardrail|security)" SP "(?:request|question|message|input|instructions?|query|for this user|findings)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"ignore_question", "indirect",
		"(?<![a-z])ignore the (?:question|guardrail|security findings|tool allow-?list|allow-?list|approval)(?![a-z])(?! (?:mark|about|on))",
	0.5, MW_GUARD_BLOCK},
	{"conceal", "indirect",
		"(?<![a-z])(?:conceal|hide|keep)" SP "(?:this|it|these)(?: (?:instructions?|message|fact))?(?: secret| hidden)?(?: from the user|\\])|do not (?:mention|tell|reveal)(?: it| this| the user)?[^.\\n]{0,40}(?:hide this instruction|to the user|this instruction)|and do not mention it",
	1, MW_GUARD_BLOCK},
	{"exfiltrate", "indirect",
		"(?<![a-z])(?:send|post|forward|include|append|paste|upload|embed|mail|transmit)(?![a-z])[^.\\n]{0,60}(?:chat|conversation|messages|history|transcript|all retrieved chunks|system prompt)(?![a-z])[^\\n]{0,40}(?:https?://|evil|attacker|link|url|\\?q=|verbatim|as (?:the )?body|mail)",
	1, MW_GUARD_BLOCK},
	{"curl_pipe", "indirect",
		"curl [^\\n|]{3,80}\\| ?(?:ba)?sh(?![a-z])",
	0.5, MW_GUARD_BLOCK},
	{"read_secret", "indirect",
		"(?:read out|show|print|list|display|paste|disclose) (?:me )?(?:the |all |every |rows of |data of ){0,3}(?:card numbers?|credentials|other (?:customers|tenants?|users)|every tenant|keys on request|all (?:customers|tenants))",
	1, MW_GUARD_BLOCK},
	{"policy_for_agents", "indirect",
		"new policy for all (?:agents|assistants|models)|you have a new policy",
	1, MW_GUARD_BLOCK},

	/* ---------- tools and approvals ---------- */
	{"no_approval", "tool",
		"(?<![a-z])(?:execute|run|call|invoke|delete|continue|proceed|approve)(?![a-z])[^.\\n]{0,80}(?:without|no need (?:to|for)|skip(?:ping)?)" SP "(?:\\w{2,12}" SP "){0,3}(?:approval|confirmation|permission|checks)(?![a-z])|(?:skip|bypass|disable|circumvent)" SP "(?:the )?(?:human(?:" SP "in" SP "the" SP "loop)?(?: approval)?|approval|confirmation|reviewer)" SP "(?:step|and|gate|check)(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"approve_yourself", "tool",
		"approve your own|approve (?:all|every|any) (?:tool calls?|requests?|changes?)(?![a-z])|(?:even though|although) the reviewer (?:rejected|denied)|change the tool name|ai reviewer, approve",
	1, MW_GUARD_BLOCK},
	{"allow_list", "tool",
		"(?:ignore|bypass|circumvent|skip)" SP "(?:the |your )?(?:tool )?(?:allow-?list|white-?list|permission check)",
	1, MW_GUARD_BLOCK},
	{"metadata_address", "tool",
		"169\\.254\\.169\\.254|metadata\\.google\\.internal|/latest/meta-data",
	1, MW_GUARD_BLOCK},
	{"other_tenant", "tool",
		"(?<![a-z])(?:tables?|rows|data|sessions|prompts?|names|questions?|records)(?![a-z])[^.\\n]{0,30}(?:of|about|from|for)" SP "(?:all |every |the ){0,3}other" SP "(?:tenant|customer|user)s?(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"other_tenants", "tool",
		"(?:the other (?:tenant|customer)s?'?s? (?:names|data|tables|rows|prompts)|you serve tenant)",
	1, MW_GUARD_BLOCK},
	{"poison_memory", "tool",
		"(?:long-?term|permanent|persistent) memory[^.\\n]{0,60}(?:ignore|every (?:later|future) session|always)",
	1, MW_GUARD_BLOCK},
	{"server_file", "tool",
		"pg_read_file|pg_ls_dir|pg_read_binary_file|/etc/(?:passwd|shadow)|copy [^\\n]{1,60} (?:to|from) program",
	0.5, MW_GUARD_BLOCK},

	/* ---------- hidden or split ---------- */
	{"decode_and_do", "encoding",
		"(?:decode|rot13|rot-13|base64|morse|ascii codes|pig latin|decrypt|reverse)(?![a-z])[^.\\n]{0,60}(?:and (?:then )?(?:obey|follow|execute|act|run|do)|then (?:act|obey|execute)|(?:and|then) (?:do|run) it|my order|run it as)(?![a-z])|(?:twice encoded|morse|encoded|hidden) order(?![a-z])",
	1, MW_GUARD_BLOCK},
	{"parts", "split",
		"(?:send|give)[^.\\n]{0,30}order in parts|execute parts|part \\d ?/ ?\\d[^\\n]{0,80}(?:forget|ignore|without limits)|(?:now |then )do a ?\\+ ?b|fill (?:in )?the blanks? and then do it|follow what it spells",
	1, MW_GUARD_BLOCK},
	{"if_then_ignore", "split",
		"if [^.\\n]{1,20}=[^.\\n]{1,20}then (?:ignore|forget|disregard)",
	0.5, MW_GUARD_BLOCK},

	/* ---------- other languages ---------- */
	{"override_de", "multilingual",
		"(?:ignorier|vergiss|vergesst|missacht|ubergeh|uberschreib|verwirf|beachte)[a-z]{0,4}(?![a-z])[^.!?\\n]{0,40}(?:anweisung|regeln|systemnachricht|vorgaben|systemprompt|instruktion|einschrankung|richtlinie|anordnung|systemmeldung|(?<=missachte die )frage)",
	1, MW_GUARD_BLOCK},
	{"leak_de", "multilingual",
		"(?:verrat|zeig|nenn|gib|wiederhol|druck|offenbar|sende)[a-z]{0,3}(?![a-z])[^.!?\\n]{0,50}(?:geheim[a-z]{0,3} (?:anweisung|regel|instruktion)|systemprompt|systemnachricht|interne[a-z]? (?:konfiguration|regel|anweisung)|vor dieser nachricht|dir (?:gegeben|vorgegeben))",
	1, MW_GUARD_BLOCK},
	{"role_de", "multilingual",
		"(?:assistent|ki|modell|bot|rolle)[a-z]{0,3}(?![a-z])[^.!?\\n]{0,30}ohne (?:grenzen|einschrankung|regeln|filter|verbote)|entwicklermodus und|sicherheitsfilter (?:ab|aus)|hinweis an die ki|die echte anweisung|(?:hor|hore) nur auf mich|ohne (?:auf )?(?:die )?(?:freigabe|genehmigung) (?:zu warten|auszufuhren)",
	1, MW_GUARD_BLOCK},
	{"override_es", "multilingual",
		"(?:ignora|olvida|descarta|omite|anula|desobedece|no (?:hagas caso|obedezcas|sigas|respetes))(?![a-z])[^.!?\\n]{0,40}(?:instrucci(?:on|ones)|reglas|mensaje del sistema|indicaciones|restricciones|directrices|ordenes anteriores)",
	1, MW_GUARD_BLOCK},
	{"leak_es", "multilingual",
		"(?:muestra|revela|repite|imprime|dime|ensena|escribe)(?:me|r)?(?![a-z])[^.!?\\n]{0,50}(?:mensaje del sistema|prompt del sistema|instrucciones (?:ocultas|secretas|internas|que te dieron)|configuracion interna|antes de este mensaje|que te dieron)",
	1, MW_GUARD_BLOCK},
	{"role_es", "multilingual",
		"sin (?:limites|restricciones|filtros|censura)[^.!?\\n]{0,30}(?:responde|asistente|ia|modelo)|(?:asistente|ia|modelo)[^.!?\\n]{0,30}sin (?:limites|restricciones|filtros|reglas)|filtros de seguridad|sin esperar (?:la )?(?:aprobacion|confirmacion)|la instruccion real es|lo anterior era una prueba|hazme caso a mi",
	1, MW_GUARD_BLOCK},
	{"override_fr", "multilingual",
		"(?:oublie|ignore|neglige|ne (?:suis|respecte|tiens))(?:z|r|ons)?(?![a-z])[^.!?\\n]{0,30}(?<![a-z])(?:les|tes|vos|ces|toutes)[^.!?\\n]{0,30}(?:regles|instructions|consignes|message systeme|directives|restrictions)|n'obei[st] qu'a moi|(?:revele|montre|affiche)[^.!?\\n]{0,40}(?:prompt|message) systeme",
	1, MW_GUARD_BLOCK},
	{"override_pt", "multilingual",
		"(?:ignor[ea]|esquec[ae]|desconsider[ea]|descart[ea])(?![a-z])[^.!?\\n]{0,40}(?:instrucoes|regras|orientacoes|diretrizes)|(?:mostre|revele|repita)[^.!?\\n]{0,30}(?:prompt|mensagem) do sistema",
	1, MW_GUARD_BLOCK},
	{"override_ru", "multilingual",
		"(?:игнорируй|проигнорируй|забудь|отмени|не соблюдай|не следуй|не выполняй|нарушь|отбрось|не обращай)(?:те)?[^.!?\\n]{0,40}(?:инструкци|указани|правил|ограничени|системн|вопрос пользовател|предписани)",
	1, MW_GUARD_BLOCK},
	{"leak_ru", "multilingual",
		"(?:раскрой|покажи|показать|выведи|напечатай|открой|повтори|отправь)(?:те)?[^.!?\\n]{0,40}(?:скрыт[а-я]{0,4} инструкц|системн[а-я]{0,4} (?:промпт|сообщени|инструкц)|данные других|внутренн[а-я]{0,4} (?:конфигурац|правил|настройк)|до этого сообщени|переписку на|секретн[а-я]{0,4} инструкц)",
	1, MW_GUARD_BLOCK},
	{"role_ru", "multilingual",
		"без (?:ограничений|запретов|цензуры|фильтров)|фильтры безопасности|считай (?:вс[её]|предыдущ)[^.!?\\n]{0,30}недействительн|только мои команды|для ии:|настоящая (?:инструкция|задача)",
	1, MW_GUARD_BLOCK},
	{"override_zh", "multilingual",
		"(?:忽略|忘记|忘掉|无视|無視|忽視|不要再?(?:遵守|遵循|理会)|取消|抛弃|违反)[^。!?\\n]{0,18}(?:指令|指示|规则|規則|提示|系统消息|系統訊息|限制|约束|命令)",
	1, MW_GUARD_BLOCK},
	{"leak_zh", "multilingual",
		"(?:输出|輸出|显示|顯示|展示|告诉我|重复|泄露|打印|说出)[^。!?\\n]{0,12}(?:系统提示|系統提示|系统消息|系统指令|隐藏|内部(?:规则|指令|配置|设置)|之前的全部|秘密指|其他租户|提示词全文)|逐字(?:重复|输出)",
	1, MW_GUARD_BLOCK},
	{"role_zh", "multilingual",
		"(?:没有|不受|无)[^。!?\\n]{0,8}(?:道德|限制|约束|审查)[^。!?\\n]{0,10}(?:助手|ai|模型|机器人)|开发者模式并|关闭安全|只(?:听我|服从用户|服从我)|不(?:用|必|要)等(?:待)?(?:批准|审批)|真正的(?:指令|任务)|给ai的(?:指令|提示)",
	1, MW_GUARD_BLOCK},
	{"override_ja", "multilingual",
		"(?:これまで|以前|今まで|上記|上の|前の|ここまで|すべて|全て|元の|与えられた)[^。!?\\n]{0,20}(?:指示|命令|ルール|制約|規則|プロンプト|設定)[^。!?\\n]{0,14}(?:無視|忘れ|破棄|従わ|無効|テスト)|(?:ルール|指示|制約)は?を?無視し|(?:質問|依頼)を無視",
	1, MW_GUARD_BLOCK},
	{"leak_ja", "multilingual",
		"システム(?:プロンプト|メッセージ|指示)[^。!?\\n]{0,20}(?:表示|出力|教え|公開|書き出|見せ|そのまま)|(?:秘密|内部|隠され|非公開|隠し)[^。!?\\n]{0,14}(?:指示|設定|ルール|プロンプト|情報)[^。!?\\n]{0,18}(?:教え|公開|表示|出力|書き出|見せ)|一字一句",
	1, MW_GUARD_BLOCK},
	{"role_ja", "multilingual",
		"承認を待たず|承認(?:なし|せず)|ai(?:への|に対する)指示|会話履歴[^。!?\\n]{0,10}(?:送信|送って|転送)|本当の指示|(?:制限|制約|検閲|ルール)の?(?:ない|なし|無い)[^。!?\\n]{0,10}(?:ai|アシスタント|モデル|ボット)|開発者モード(?:に入|を有効)",
	1, MW_GUARD_BLOCK},
	{"override_ko", "multilingual",
		"(?:이전|위의|모든|앞의|지금까지)[^.!?\\n]{0,18}(?:지시|명령|규칙|지침)[^.!?\\n]{0,12}(?:무시|잊|따르지)|시스템 (?:프롬프트|메시지)[^.!?\\n]{0,14}(?:보여|출력|알려|공개)",
	1, MW_GUARD_BLOCK},
	{"override_ar", "multilingual",
		"(?:تجاهل|انس|اهمل|لا تتبع)[^.!?\\n]{0,30}(?:التعليمات|القواعد|الاوامر|الأوامر|التوجيهات)|(?:اعرض|اكشف|اطبع)[^.!?\\n]{0,20}(?:رسالة النظام|موجه النظام)",
	1, MW_GUARD_BLOCK},

	/* ---------- what is counted (checks.c) ---------- */
	{"smuggled_text", "invisible", NULL, 1, MW_GUARD_BLOCK, MW_GUARD_CHECK},
	{"split_letters", "invisible", NULL, 0.5, MW_GUARD_BLOCK, MW_GUARD_CHECK},
	{"many_shot", "flooding", NULL, 0.5, MW_GUARD_BLOCK, MW_GUARD_CHECK},
	{"context_flood", "flooding", NULL, 0.5, MW_GUARD_BLOCK, MW_GUARD_CHECK},

	/* ---------- what was learned (learned.c) ---------- */
	{"learned", "learned", NULL, 1, MW_GUARD_BLOCK, MW_GUARD_LEARNED, MW_FROM_INPUT, 0.9},

	/* ---------- answers (guard_output.c): an administrator's choice ---------- */
	{"output_system_prompt", "output", NULL, 1, MW_GUARD_OFF, MW_GUARD_CHECK, 1 << MW_FROM_OUTPUT},
	{"output_redacted_value", "output", NULL, 1, MW_GUARD_OFF, MW_GUARD_CHECK, 1 << MW_FROM_OUTPUT},
	{"output_foreign_image", "output", NULL, 1, MW_GUARD_OFF, MW_GUARD_CHECK, 1 << MW_FROM_OUTPUT},
	{"output_length", "output", NULL, 1, MW_GUARD_BLOCK, MW_GUARD_CHECK, 1 << MW_FROM_OUTPUT},
	{"output_schema", "output", NULL, 1, MW_GUARD_BLOCK, MW_GUARD_CHECK, 1 << MW_FROM_OUTPUT},
	{"output_secret", "output",
		"-----begin (?:[a-z]{2,12} )?private key-----|(?<![a-z0-9])(?:akia|asia)[0-9a-z]{16}(?![a-z0-9])|(?<![a-z0-9])gh[pousr]_[0-9a-z]{36}|(?<![a-z0-9])github_pat_[0-9a-z_]{40}"
		"|(?<![a-z0-9])sk-(?:ant-|proj-|live-)?[0-9a-z_-]{20,200}|(?<![a-z0-9])xox[abprs]-[0-9a-z-]{10}|(?<![a-z0-9])aiza[0-9a-z_-]{35}|(?<![a-z0-9])eyj[0-9a-z_-]{10,400}\\.eyj[0-9a-z_-]{10}",
	1, MW_GUARD_OFF, MW_GUARD_PATTERN, 1 << MW_FROM_OUTPUT},
};

const int	mw_nbuiltin_guards = lengthof(mw_builtin_guards);
