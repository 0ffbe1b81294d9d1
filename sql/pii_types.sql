-- Risk: a kind of personal data that mw names is not found, or a number with a wrong check digit is.
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

CREATE TEMP TABLE sample (type text, said text, value text);
-- a value in its context; values are published examples or made for this, nobody's
INSERT INTO sample VALUES
	('EMAIL', 'write to %s today', '"john smith"@example.org'), ('EMAIL', 'to %s', 'user+tag@sub.example.co.uk'),
	('EMAIL', 'to %s', 'info@xn--bcher-kva.example'), ('EMAIL', 'to %s', 'admin@[192.0.2.1]'), ('EMAIL', 'an %s bitte', 'jörg@müller.example'),
	('EMAIL', 'to %s', '用户@例子.广告'), ('EMAIL', 'to %s', 'o''brien!x@example.com'),
	('PHONE', 'call %s', '+44 20 7946 0958'), ('PHONE', 'x %s x', '(415) 555-0132'), ('PHONE', 'dial %s', '011 44 20 7946 0958'), ('PHONE', 'toll free %s', '1-800-555-MOVE'),
	('PHONE', 'my number is %s', '020 7946 0958'), ('PHONE', 'Tel. %s', '030 23125 000'), ('PHONE', '携帯 %s', '090-1234-5678'), ('PHONE', 'x %s', '(+49) 30 23125 000'), ('PHONE', 'call %s', '1 (415) 555-0132'),
	('SSN', 'x %s', '078-05-1120'), ('SSN', 'SSN %s', '536228145'),
	('CC', 'card %s', '4111 1111 1111 1111'), ('CC', 'card %s', '378282246310005'), ('CC', 'card %s', '2223003122003222'), ('CC', 'card %s', '6759649826438453'),
	('IBAN', 'pay %s', 'DE89 3704 0044 0532 0130 00'), ('IBAN', 'pay %s', 'gb82west12345698765432'),
	('BIC', 'BIC: %s', 'DEUTDEFF'), ('BIC', 'SWIFT code %s', 'NWBKGB2LXXX'),
	('IP', 'from %s', '203.0.113.7'), ('IP', 'ip:%s', '2001:db8::1'), ('IP', 'from %s', '::ffff:192.0.2.1'), ('IP', 'on %s ok', 'fe80::1'),
	('MAC', 'at %s', 'DE-AD-BE-EF-CA-FE'), ('MAC', 'at %s', '0011.2233.4455'), ('MAC', 'mac:%s', '00:1b:44:11:3a:b7'),
	('GPS', 'GPS %s', '48.85837, 2.29448'), ('GPS', 'at %s', '40.7128° N, 74.0060° W'), ('GPS', 'at %s', '40°26′46″N 79°58′56″W'),
	('DOB', 'born %s', '1990-05-17'), ('DOB', 'DOB: %s', '05/17/1990'), ('DOB', 'date of birth %s', 'May 17, 1990'), ('DOB', 'geboren am %s', '17. Mai 1990'), ('DOB', 'né le %s', '17 mai 1990'), ('DOB', '生年月日：%s', '1990年5月17日'),
	('PASSPORT', 'passport no. %s', 'C01X00T47'), ('PASSPORT', 'Passport number: %s', '123456789'), ('PASSPORT', 'паспорт %s', '4510 123456'),
	('DRIVER_LICENSE', 'driver''s license %s', 'D1234567'), ('DRIVER_LICENSE', 'driving licence %s', 'MORGA657054SM9IJ'),
	('BANK_ACCOUNT', 'bank account number %s', '945456787654'), ('BANK_ACCOUNT', 'sort code %s', '12-34-56'),
	('US_ROUTING', 'routing number %s', '021000021'),
	('CRYPTO', 'send bitcoin to %s', '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa'), ('CRYPTO', 'x %s', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'),
	('CRYPTO', 'x %s', 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0'), ('CRYPTO', 'x %s', '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'),
	('CRYPTO', 'x %s', 'rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh'), ('CRYPTO', 'ltc wallet %s', 'LM2WMpR1Rp6j3Sa59cMXMs1SPzj9eXpGc1'),
	('API_KEY', 'x %s', 'AKIAIOSFODNN7EXAMPLE'), ('API_KEY', 'x %s', 'ghp_' || repeat('aB3d', 9)), ('API_KEY', 'x %s', 'sk-' || repeat('aB3dE6g8', 6)),
	('API_KEY', 'x %s', 'xoxb-123456789012-abcdefABCDEF'), ('API_KEY', 'key=%s', 'AIza' || repeat('Sy7_a', 7)), ('API_KEY', 'x %s', 'sk_live_' || repeat('4eC3', 6)), ('API_KEY', 'x %s', 'SG.' || repeat('a1', 11) || '.' || repeat('b2', 21) || 'c'),
	('API_KEY', 'x %s', 'glpat-' || repeat('a1B2c', 4)), ('API_KEY', 'x %s', 'npm_' || repeat('a1B2', 9)), ('API_KEY', 'x %s', 'hf_' || repeat('a1BcD', 7)), ('API_KEY', 'api_key = "%s"', '7fh3KSjw83HSjdn38sHS92jd'), ('API_KEY', 'bot %s', '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0'),
	('API_KEY', 'aws_secret_access_key=%s', 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY'), ('API_KEY', 'x %s', 'sk-ant-api03-' || repeat('aB3d_', 18) || 'AA'),
	('JWT', 'Bearer %s', 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U'),
	('PRIVATE_KEY', 'key: %s', E'-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\n-----END RSA PRIVATE KEY-----'),
	('PASSWORD', 'password: %s', 'hunter2!'), ('PASSWORD', 'PGPASSWORD=%s psql', 'Tr0ub4dor_3'), ('PASSWORD', '{"db_password": "%s"}', 'correct horse'), ('PASSWORD', 'the password is %s', 'hunter2'),
	('URL_CREDENTIALS', 'postgres://%s/app', 'app:s3cret@db.example.com'),
	('US_ITIN', 'x %s', '912-70-1234'), ('US_MBI', 'x %s', '1EG4-TE5-MK73'), ('US_NPI', 'NPI %s', '1234567893'), ('US_DEA', 'DEA number %s', 'AB1234563'), ('MRN', 'MRN: %s', '00481516'),
	('UK_NINO', 'x %s', 'AB123456C'), ('UK_NINO', 'x %s', 'AB 12 34 56 C'), ('UK_NHS', 'NHS number %s', '943 476 5919'), ('UK_UTR', 'UTR %s', '1955839661'), ('IE_PPS', 'PPS number %s', '6433435OA'),
	('FR_NIR', 'x %s', '2 95 10 99 126 111 93'), ('FR_NIR', 'x %s', '184127645108946'), ('BE_NN', 'x %s', '85.07.30-033.28'), ('NL_BSN', 'BSN %s', '111222333'), ('CH_AHV', 'x %s', '756.9217.0769.85'), ('LU_NIN', 'matricule %s', '1893120105732'),
	('DE_TAX_ID', 'Steuer-ID %s', '36 574 261 809'), ('DE_SVNR', 'x %s', '15 070649 C 103'), ('AT_SVNR', 'SVNR %s', '1237 010180'), ('DE_KVNR', 'Krankenversichertennummer %s', 'A123456780'),
	('ES_NIF', 'x %s', '12345678Z'), ('ES_NIF', 'x %s', 'X1234567L'), ('ES_NIF', 'x %s', '12.345.678-Z'), ('PT_NIF', 'NIF %s', '501964843'), ('IT_FISCAL_CODE', 'x %s', 'RSSMRA85T10A562S'), ('GR_AMKA', 'AMKA %s', '01013099997'), ('GR_AFM', 'AFM %s', '094259216'),
	('SE_PNR', 'x %s', '811228-9874'), ('NO_FNR', 'x %s', '15108695088'), ('DK_CPR', 'CPR %s', '211062-5629'), ('FI_HETU', 'x %s', '131052-308T'), ('IS_KT', 'x %s', '450401-3150'), ('EE_IK', 'isikukood %s', '36805280109'), ('LT_AK', 'asmens kodas %s', '33309240064'), ('LV_PK', 'x %s', '161175-19997'),
	('PL_PESEL', 'PESEL %s', '44051401359'), ('PL_NIP', 'NIP %s', '8567346215'), ('PL_ID_CARD', 'dowód osobisty %s', 'ABA300000'), ('CZ_RC', 'x %s', '710319/2745'), ('RO_CNP', 'CNP %s', '1630615123457'), ('BG_EGN', 'EGN %s', '7523169263'), ('HU_TAJ', 'TAJ szám %s', '111 111 110'), ('HU_TAX_ID', 'adóazonosító jel %s', '8071592153'),
	('HR_OIB', 'OIB %s', '33392005961'), ('JMBG', 'JMBG %s', '0101006500006'), ('SI_TAX_ID', 'davčna številka %s', '50223054'), ('TR_TCKN', 'TC kimlik no %s', '10000000146'), ('UA_RNTRC', 'РНОКПП %s', '1759013776'), ('RU_INN', 'ИНН %s', '500100732259'), ('RU_SNILS', 'x %s', '112-233-445 95'),
	('CA_SIN', 'SIN %s', '046 454 286'), ('MX_CURP', 'x %s', 'BOXW310820HNERXN09'), ('BR_CPF', 'x %s', '390.533.447-05'), ('BR_CNPJ', 'x %s', '16.727.230/0001-97'), ('AR_CUIT', 'x %s', '20-05536168-2'), ('CL_RUT', 'x %s', '12.531.909-2'), ('CO_NIT', 'NIT %s', '213.123.432-1'), ('EC_CI', 'cédula %s', '1714307103'), ('UY_CI', 'x %s', '1.234.567-2'), ('DO_CEDULA', 'x %s', '224-0002211-1'),
	('CN_ID', 'x %s', '11010519491231002X'), ('TW_ID', '身分證 %s', 'A123456789'), ('HK_ID', 'x %s', 'A123456(3)'), ('JP_MYNUMBER', 'マイナンバー %s', '1234 5678 9018'), ('KR_RRN', 'x %s', '971013-9019902'), ('KR_RRN', 'x %s', '820701-2409184'),
	('SG_NRIC_FIN', 'x %s', 'S1234567D'), ('MY_NRIC', 'x %s', '770305-02-1234'), ('TH_TNIN', 'x %s', '1-2345-45678-78-1'), ('ID_NIK', 'NIK %s', '3171011708450001'), ('AU_TFN', 'TFN %s', '123 456 782'), ('AU_MEDICARE', 'Medicare %s', '2123 45670 1'), ('AU_ABN', 'ABN %s', '51 824 753 556'), ('NZ_IRD', 'IRD %s', '49-091-850'), ('NZ_NHI', 'NHI %s', 'ZZZ0016'),
	('IN_AADHAAR', 'x %s', '2341 2341 2346'), ('IN_PAN', 'x %s', 'AFZPK7190K'), ('PK_CNIC', 'x %s', '35202-1234567-1'), ('IN_VOTER', 'voter ID %s', 'ABC1234567'),
	('IL_ID', 'teudat zehut %s', '039337423'), ('AE_EID', 'x %s', '784-1980-1234567-8'), ('SA_ID', 'iqama %s', '1018509875'), ('ZA_ID', 'ID number %s', '7503305044089'), ('IR_NID', 'کد ملی %s', '0499370899'), ('GH_CARD', 'x %s', 'GHA-123456789-1'),
	('NATIONAL_ID', 'my national ID is %s', '48-221907-K5'), ('TAX_ID', 'tax number %s', '449-210-337-B');
SELECT sample.type, said, sample.value, (SELECT string_agg(concat_ws(' ', s->>'type', substr(format(said, sample.value), (s->>'start')::int + 1, (s->>'end')::int - (s->>'start')::int)), '; ') FROM jsonb_array_elements(r->'spans') AS s) AS got
FROM sample, mw_redact(format(said, sample.value)) AS r
WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(r->'spans') AS s WHERE s->>'type' = sample.type AND substr(format(said, sample.value), (s->>'start')::int + 1, (s->>'end')::int - (s->>'start')::int) = sample.value);
