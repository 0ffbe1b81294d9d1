/*
 * recognizers_secret.c - what opens something: keys and tokens of vendors,
 * private keys, passwords that stand behind their name.
 *
 * Vendors' tokens are told by how they begin, which is why they begin so.
 * Several vendors share a row: the placeholder says API_KEY, no more is needed.
 */
#include "stage/recognizers.h"

#define KL	"(?<![A-Za-z0-9])"
#define KR	"(?![A-Za-z0-9])"
#define W	"[A-Za-z0-9_-]"
#define UUID "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

/*
 * Where a word for a secret begins inside a name, and that it ends there: apiKey and api_key_2, but no monkey and no
 * keyboard.  Without a mark or a capital letter only behind what it is often written together with.
 */
#define WITHIN(capital, often) "(?:(?<![a-z])|(?-i:(?<=[a-z0-9])(?=" capital "))|(?<=" often "))"
#define ENDS	"(?:(?![a-z])|(?-i:(?<=[a-z])(?=[A-Z])))"

/* what a password is called where somebody speaks of it */
#define SAID	"pass(?:w(?:or)?d|wort|code|phrase|ord|e)"

/* what stands between a name and its value: a type, an assignment or a comparison; the end of an XML tag */
#define ASSIGN \
	"(?:[\"'`\\])]{0,2}\\s{0,4}(?::?\\s{0,2}&?(?:string|str|text|varchar|char ?\\*)\\s{1,2})?[.?!|+:=]{0,3}[=:]>?\\s{0,4}@?" \
	"|>\\s{0,8}(?=[^<>]{1,512}</))"

static const MwRecognizer recs[] =
{
	REC("API_KEY", "key start=AKIA,ASIA,ABIA,ACCA,AROA,AIDA,AGPA,AIPA,ANPA,ANVA,A3T",
		KL "(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|AIPA|ANPA|ANVA)[A-Z2-7][A-Z0-9]{15}" KR,
		NULL, NULL, 88),
	REC("API_KEY", "key start=ghp_,gho_,ghu_,ghs_,ghr_,github_pat_,glpat-,gldt-,glrt-,glcbt-,glptt-,glft-,glsoat-,GR1348941",
		KL "(?:gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{60,100}|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_.-]{20,64}|GR1348941" W "{20,30})(?!" W ")",
		NULL, NULL, 88),
	REC("API_KEY", "key start=sk-,sk_,rk_,pk_live_,pk_test_,whsec_,rk-,AIza,ya29,hf_,gsk_,r8_,xai-,pplx-,nvapi-,tvly-,lsv2_",
		KL "(?:sk-ant-(?:api|sid|admin)[0-9]{2}-" W "{20,120}|sk-(?:proj|svcacct|admin|None|or-v1|lf)-" W "{20,220}|sk-[A-Za-z0-9]{20,64}|sk-" W "{40,200}"
		"|[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,120}|whsec_[A-Za-z0-9+/=]{24,72}|AIza" W "{35}|ya29\\." W "{20,300}|hf_[A-Za-z]{0,4}[A-Za-z0-9]{30,40}"
		"|gsk_[A-Za-z0-9]{48,60}|r8_[A-Za-z0-9]{37}|xai-[A-Za-z0-9]{70,90}|pplx-[A-Za-z0-9]{40,60}|nvapi-" W "{60,72}|tvly-" W "{20,48}|lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10})(?!" W ")",
		NULL, NULL, 88),
	REC("API_KEY", "key start=xox,xapp-,EAA,SG,key-,SK,AC,PMAK-,figd_,lin_api_,secret_,ntn_,shp,dop_v1_,doo_v1_,dor_v1_,tfp_,pul-,NRAK-,NRJS-,NRII-",
		KL "(?:xox[abeoprs](?:\\.xox[bp])?-[A-Za-z0-9-]{10,250}|xapp-[0-9]-[A-Za-z0-9-]{20,160}|EAA[A-Za-z0-9]{60,250}|SG\\." W "{16,32}\\." W "{32,64}|key-[0-9a-f]{32}"
		"|(?:SK|AC)[0-9a-f]{32}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|figd_" W "{36,50}|lin_api_[A-Za-z0-9]{40}|secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,50}"
		"|shp(?:at|ca|pa|ss|ua)_[A-Za-z0-9]{32,64}|do[opr]_v1_[a-f0-9]{64}|tfp_" W "{40,60}|pul-[a-f0-9]{40}|NR(?:AK-[A-Z0-9]{27}|JS-[a-f0-9]{19}|II-" W "{32}))(?!" W ")",
		NULL, NULL, 88),
	REC("API_KEY", "key start=npm_,pypi-,rubygems_,dckr_pat_,dp,hvs,hvb,glsa_,eyJrIjoi,sntrys_,sntryu_,atlasv1,CFPAT-,ATATT3,ATBB,AGE-SECRET-KEY-1,ops_,PRIVAT,sl,v1,live_,test_,sq0,EAAA,rzp_",
		KL "(?:npm_[A-Za-z0-9]{30,40}|pypi-AgE[A-Za-z0-9_-]{50,250}|rubygems_[a-f0-9]{48}|dckr_pat_" W "{27}|dp\\.(?:pt|st|ct|sa|scim|audit)\\.[A-Za-z0-9._-]{40,60}|hv[sb]\\." W "{24,300}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"
		"|eyJrIjoi[A-Za-z0-9+/=]{60,400}|sntry[su]_[A-Za-z0-9+/=_-]{40,300}|CFPAT-" W "{43}|ATATT3[A-Za-z0-9_=-]{150,250}|ATBB[A-Za-z0-9]{24,40}|AGE-SECRET-KEY-1[A-Z0-9]{58}|ops_eyJ[A-Za-z0-9+/=]{200,1000}"
		"|sl\\.(?:B\\.)?" W "{60,1400}|live_[A-Za-z0-9]{35}|sq0(?:atp|csp|idp)-" W "{22,43}|EAAA[A-Za-z0-9+=_-]{60}|rzp_(?:live|test)_[A-Za-z0-9]{14})(?!" W ")",
		NULL, NULL, 88),
	REC("API_KEY", "key start=pat-,pat,dapi,sbp_,sb_secret_,pscale_,phc_,phx_,ddp_,re_,vercel_,fo1_,fm1_,fm2_,bkua_,sgp_,LTAI,AKID,CCIPAT_,CCIPRJ_,nfp_,jina_,fw_,csk-,tskey-,glc_,ATCTT3,HRKU-,EZAK,EZTK,xkeysib-,xsmtpsib-,GOCSPX-",
		KL "(?:pat-(?:na|eu|ap)[0-9]-" UUID "|pat[A-Za-z0-9]{14}\\.[0-9a-f]{64}|dapi[0-9A-Fa-f]{32}(?:-[0-9])?|sbp_[0-9a-f]{40}|sb_secret_" W "{20,60}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}"
		"|ph[cx]_[A-Za-z0-9]{40,60}|ddp_[A-Za-z0-9]{36}|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,32}|vercel_blob_rw_[A-Za-z0-9]{16}_[A-Za-z0-9]{30}|fo1_" W "{43}|fm[12]_[A-Za-z0-9+/=_-]{80,1000}|bkua_[0-9a-f]{40}"
		"|sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}|LTAI[A-Za-z0-9]{12,24}|AKID[A-Za-z0-9]{32}|CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[0-9a-f]{40}|nfp_[A-Za-z0-9]{36,40}|jina_[A-Za-z0-9_]{56,64}|fw_[A-Za-z0-9]{24}"
		"|csk-[A-Za-z0-9]{48}|tskey-[a-z]{2,10}-[A-Za-z0-9]{10,30}-[A-Za-z0-9]{20,60}|glc_eyJ[A-Za-z0-9+/=]{40,400}|ATCTT3[A-Za-z0-9_=-]{150,250}|HRKU-(?:AA" W "{56,62}|" UUID ")|EZ[AT]K[A-Za-z0-9]{54}"
		"|x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}|GOCSPX-" W "{28})(?!" W ")",
		NULL, NULL, 88),
	REC("API_KEY", "key start=aio_,p8e-,A3-,AKCp,cmVmdGtu,api_org_,AVNS_,amzn,ABSK,CLOJARS_,dt0,duffel_,fio-u-,FLWSECK,FLWPUBK,frk_,ico-,lin_oauth_,oy2,pnu_,rdme_,rootly_,tk-us-,shippo_,squ_,sqp_,sqa_,v1.0-,cfat_,cfut_,vcp_,vci_,vca_,vcr_,vck_",
		KL "(?:aio_[A-Za-z0-9]{28}|p8e-[A-Za-z0-9]{32}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}|AKCp[A-Za-z0-9]{60,80}|cmVmdGtu[A-Za-z0-9]{50,70}|api_org_[A-Za-z0-9]{30,40}"
		"|AVNS_" W "{16,32}|amzn\\.mws\\." UUID "|amzn1\\.oa2-cs\\.v1\\.[0-9a-f]{64}|ABSK[A-Za-z0-9+/]{80,280}={0,2}|CLOJARS_[A-Za-z0-9]{60}|dt0[a-z]0[0-9]\\.[A-Z0-9]{24}\\.[A-Z0-9]{64}|duffel_(?:test|live)_" W "{40,50}"
		"|fio-u-" W "{60,70}|FLW(?:SECK|PUBK)(?:_TEST)?-[A-Za-z0-9]{12,40}(?:-X)?|frk_[A-Za-z0-9]{20,64}|(?<!\\.)ico-[A-Za-z0-9]{32}|lin_oauth_[A-Za-z0-9]{40,70}|oy2[a-z0-9]{43}|pnu_[A-Za-z0-9]{36}|rdme_[a-z0-9]{70}"
		"|rootly_[a-f0-9]{64}|tk-us-" W "{48}|shippo_(?:live|test)_[a-fA-F0-9]{40}|sq[upa]_[a-f0-9]{40}|v1\\.0-[a-f0-9]{24}-[a-f0-9]{146}|cf[au]t_[A-Za-z0-9]{40,60}|vc[picrak]_[A-Za-z0-9]{24,64})(?!" W ")",
		NULL, NULL, 88),
	REC("API_KEY", "key start=apify_api_,bb_,hcaik_,hcxik_,e2b_,tgp_v1_,pcsk_,fc-,pa-,rnd_,napi_,cal_live_,ATTA,pk_,sk_,pri_,spu-,pgar_,odt_,sandbox-sq0,sq0idb-,django-insecure-,NRAA-,NRIQ-,NRRA-,NRSP-,access-,API-,sdk-,mob-,sm_,AQVN,YC,pk.eyJ,sk.eyJ,tk.eyJ,oa2-,glffct-,gloas-,glagent-,glrtr-,glimt-,tskey-,pat.,sat.",
		KL "(?:apify_api_[A-Za-z0-9-]{30,60}|bb_(?:ma|pr|live|test)_[a-zA-Z0-9]{16,64}|hc[ax]ik_[a-z0-9]{58}|e2b_[a-f0-9]{40}|tgp_v1_" W "{40,50}|pcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{50,64}|fc-[a-f0-9]{32}|pa-" W "{43}|rnd_[A-Za-z0-9]{28,40}"
		"|napi_[A-Za-z0-9]{50,70}|cal_live_[a-f0-9]{32}|ATTA[a-f0-9]{72}|pk_[0-9]{6,10}_[A-Z0-9]{32}|sk_(?:[a-z]{2,4}_[a-z]{2,12}_[0-9a-f]{40}|[A-Za-z0-9]{32,64})|pri_[a-f0-9]{32}|spu-[A-Za-z0-9]{32}|pgar_" W "{28,32}|odt_[A-Za-z0-9]{32}(?:_[A-Za-z0-9]{8,32})?"
		"|(?:sandbox-)?sq0(?:idb|csb|atb)-" W "{22,43}|django-insecure-[^\\s\"']{30,80}|NR(?:AA|IQ|RA|SP)-" W "{24,48}|access-(?:sandbox|development|production)-" UUID "|API-[A-Z0-9]{26,32}|(?:sdk|mob)-" UUID "|sm_(?:aat|pat|sat)_[A-Za-z0-9]{16,24}"
		"|AQVN[A-Za-z0-9_-]{35,38}|YC[A-Za-z0-9_-]{38}|[pst]k\\.eyJ[A-Za-z0-9_-]{40,120}\\.[A-Za-z0-9_-]{20,32}|oa2-client-id_" W "{32}|gl(?:ffct|oas|agent|rtr|imt)-" W "{20,64}|tskey-[a-z]{2,10}-" W "{20,80}|[ps]at\\." W "{22}\\.[a-f0-9]{24}\\.[A-Za-z0-9]{20})(?!" W ")",
		NULL, NULL, 88),
	/* a token in base64 once more */
	REC("API_KEY", "key start=ZXlK",
		KL "ZXlK[A-Za-z0-9+/_-]{40,8000}={0,2}", NULL, NULL, 88),
	/* 32 hexadecimal digits and a place: Mailchimp */
	REC("API_KEY", "word len=32",
		KL "[0-9a-f]{32}-us[0-9]{1,2}" KR, NULL, NULL, 88),
	/* a bot of Telegram: a number, a colon, 35 characters */
	REC("API_KEY", "number len=8-10 sep=_",
		KL "[0-9]{8,10}:AA" W "{31,36}(?!" W ")", NULL, NULL, 88),
	/* a bot of Discord: three parts with points */
	REC("API_KEY", "word len=24,26 sep=. first=a",
		KL "[MNO][A-Za-z0-9]{23,25}\\." W "{6}\\." W "{27,40}(?!" W ")", NULL, NULL, 88),
	REC("API_KEY", "scheme",
		"https://(?:hooks\\.slack\\.com/(?:services|workflows|triggers)/\\K[A-Za-z0-9/+_-]{20,120}"
		"|(?:(?:canary|ptb)\\.)?discord(?:app)?\\.com/api/(?:v[0-9]+/)?webhooks/\\K[0-9]{17,20}/" W "{50,80}"
		"|[a-z0-9-]{1,63}\\.webhook\\.office\\.com/webhookb2/\\K[A-Za-z0-9@/-]{60,200})",
		NULL, NULL, 88),
	/* a connection string of Azure, and what else says AccountKey= */
	REC("API_KEY", "named min=14",
		"(?i)(?:account|shared ?access|signing|instrumentation)[_ -]?key" ASSIGN "\\K[A-Za-z0-9+/]{40,90}={0,2}" KR,
		"token", NULL, 87),
	/* Authorization: Bearer ..., whatever the token looks like */
	REC("API_KEY", "named min=8",
		"(?i)[a-z0-9_.-]{0,32}authorization[\"'`\\]]{0,2}\\s{0,4}(?:=>|[:=,])\\s{0,4}[\"'`]?\\s?(?:bearer|basic|token|apikey|api-key|digest|oauth|ssws|key|jwt|hmac|splunk|geniekey)\\s{1,2}\\K(?=[A-Za-z_+/~:-]{0,64}[0-9=.])[A-Za-z0-9_+/.=~:%-]{8,2048}",
		"password", NULL, 66),
	/* named keys of anybody: api_key = "...", X-Auth-Token: ... */
	REC("API_KEY", "named min=14",
		"(?i)[a-z0-9_.-]{0,32}(?:" WITHIN("K", "api|app|web|ssh|gpg|aws|auth|pass|user|hmac|admin|access|secret|master|shared|client|deploy|private|account|signing|service|storage|session|license|licence|consumer|encryption|subscription") "key(?:s|id)?"
		"|token(?:id)?|secrets?|credentials?|" WITHIN("A", "o|http|basic|proxy") "auth(?:orization|entication)?)" ENDS "[a-z0-9_.-]{0,16}" ASSIGN "(?:(?:bearer|basic|token|apikey)\\s{1,2})?(?:[\"'`]\\s?\\K[^\\s\"'`<>\\\\]{16,512}(?=[\"'`])|(?:\\\\?[\"'`]|b[\"'])?\\s?\\K[A-Za-z0-9_+/.=~-]{16,512}(?![A-Za-z0-9_+/=~-]))",
		"token", NULL, 66),
	REC("API_KEY", "run len=16-63",
		"[A-Za-z0-9_+/.~-]{16,512}={0,2}(?![A-Za-z0-9_+/=~-])",
		"token", "=bearer|authorization bearer|api key is|apikey is|access token is|secret key is|api token is", 66),

	/* somebody says which token: the API key 3f2a... */
	REC("API_KEY", "run len=1-63",
		"[A-Za-z0-9_+/.~-]{20,512}={0,2}(?![A-Za-z0-9_+/=~-])",
		"token", "\\b(?:(?:api|app|access|secret|auth|private|signing|account|licen[cs]e|encryption)[ _-]?(?:key|token|secret|code)|(?:client[ _-]?)?secret|(?:bot|bearer|refresh|session|deploy)[ _-]?token|token)[ \\t]{1,2}[\"'`]?$", 66),

	/* put("api_key", "...") */
	REC("API_KEY", "run len=8-63",
		"[A-Za-z0-9_+/.=~-]{16,512}(?=[\"'`])",
		"token", "(?:key|token|secret|credential)s?[\"'`]\\s{0,2},\\s{0,2}[\"'`]$", 66),
	REC("JWT", "key start=eyJ",
		KL "eyJ[A-Za-z0-9_-]{8,2000}\\.[A-Za-z0-9_-]{4,8000}(?:\\.[A-Za-z0-9_-]{0,4000}){0,3}(?!" W ")",
		"jwt", NULL, 89),

	/* a whole block, or what there is of it */
	REC("PRIVATE_KEY", "pem",
		"-----BEGIN ?(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:[^-]{0,16000}(?:-----END [A-Z0-9 ]{0,60}-----)?+|[\\s\\S]{0,16000}?-----END [A-Z0-9 ]{0,60}-----)",
		NULL, NULL, 96),
	REC("PRIVATE_KEY", "named start=PuTTY",
		"PuTTY-User-Key-File-[0-9]: [\\s\\S]{20,16000}?Private-MAC: [0-9a-f]{40,64}" KR, NULL, NULL, 96),

	/* what opens a wallet: a key for export, and one that all others follow from */
	REC("PRIVATE_KEY", "word len=51-52 first=5a",
		L "[5KL][1-9A-HJ-NP-Za-km-z]{50,51}" R, "wif", NULL, 96),
	REC("PRIVATE_KEY", "key start=xprv,yprv,zprv,tprv",
		KL "[xyzt]prv[1-9A-HJ-NP-Za-km-z]{107}" KR, NULL, NULL, 96),

	/* password = hunter2, "pwd": "...", PGPASSWORD=...: what stands behind the name */
	REC("PASSWORD", "named",
		"(?i)[a-z0-9_.-]{0,32}(?:pass(?:w(?:or)?d|wort|phrase|code)|" WITHIN("P", "db|my|pg|ftp|sql|key|user|root|smtp|mail|http|sudo|admin|store|proxy|login") "(?:passe?|pw)" ENDS
		"|pwd|kennwort|contrase(?:ñ|n)a|(?<![a-z])clave|senha|mot de passe|wachtwoord|has[łl]o|l[öo]senord|salasana|(?<![a-z])[şs]ifre|parolă|adgangskode|passord|kodeord|heslo|jelszó|lozinka|khẩu"
		"|пароль|парола|лозинка|密[码碼]|口令|パスワード|비밀번호|암호|المرور|السر|पासवर्ड|รหัสผ่าน|סיסמ[הת]|πρόσβασης)[a-z0-9_.-]{0,12}" ASSIGN
		"(?:\\\\\"\\K[^\"\\\\\\r\\n]{3,128}(?=\\\\\")|\"\\K(?![,;.)] )(?:[^\"\\\\\\r\\n]|\\\\[^\\r\\n]){3,128}(?=\")|'\\K(?![,;.)] )[^'\\r\\n]{3,128}(?=')|`\\K(?![,;.)] )[^`\\r\\n]{3,128}(?=`)|\\K[^\\s\"'`<>(){}\\[\\],;&|]{3,128})",
		"password", NULL, 67),
	/* the password is "hunter", is: hunter; and where somebody speaks of theirs, at the end of the sentence */
	REC("PASSWORD", "said",
		"(?i)" SAID "s?(?: (?:for|to|of|für|von|pour|de) [^\\s\"'`]{1,32}){0,2} (?:is|was|ist|lautet|war|est|er|är)(?: (?:now|set to|jetzt|nun|maintenant))?"
		"(?: ?:?\\s{0,2}[\"'`“”‘’„«‹]\\s?\\K[^\\s\"'`“”‘’«»‹›]{3,64}(?: [^\\s\"'`“”‘’«»‹›]{1,64}){0,5}(?=\\s?[\"'`“”’»›])| ?:\\s{1,2}\\K[^\\s\"'`<>(){}\\[\\],;“”‘’„«»]{3,64})",
		"password", NULL, 67),
	REC("PASSWORD", "said",
		"(?i)(?<=\\bmy |\\bmein |\\bmon mot de |\\bmitt )" SAID " (?:is|ist|lautet|est|er) \\K[^\\s\"'`<>(){}\\[\\],;:.!?$%/=]{4,64}(?=[.,;!?]\\s|[.,;!?]?[ \\t\\r]{0,8}(?:$|\\n))",
		"saidword", NULL, 67),
	/* curl -u name:password */
	REC("PASSWORD", "named",
		"(?:(?<=-u )|(?<=-u[\"'])|(?<=-u [\"'])|(?<=--user[ =])|(?<=--user[ =][\"']))[^\\s:\"'<>$]{1,64}:\\K[^\\s\"'<>]{3,128}", "password", NULL, 67),
	REC("PASSWORD", "run len=4-63",
		L "[^\\s\"'`<>(){}\\[\\],;]{4,64}",
		"secretword", "=password is|passwort ist|passcode is|pwd is|passphrase is|mot de passe est|contraseña es|senha é|password to|пароль|密码是|密码|パスワードは", 67),
	REC("PASSWORD", "run len=4-8",
		L "[0-9]{4,8}" R,
		NULL, "=pin is|pin code is|pin number is|my pin|otp is|one time code is|verification code is", 40),

	/* scheme://user:password@host */
	REC("URL_CREDENTIALS", "scheme",
		L "[A-Za-z][A-Za-z0-9+.-]{1,20}://\\K[^\\s/:@\"'<>?#]{0,128}:[^\\s/@\"'<>]{1,256}(?=@[A-Za-z0-9\\[._-])",
		"urlpassword", NULL, 101),
};

const MwRecognizerList mw_recognizers_secret = {recs, lengthof(recs)};
