/*
 * validate_europe.c - check digits of numbers that European states give out.
 *
 * Each follows the published rule of its country; a date inside a number must be
 * one that can be.  s is what a pattern matched, so lengths and letters are
 * right already where the pattern says them, and are checked where it does not.
 */
#include "util/validate_int.h"

/* ---------- United Kingdom, Ireland ---------- */

static int
v_uk_nino(const char *s, int len)
{
	static const char *const never[] = {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"};
	char		c[9];
	int			n = mw_alnums(s, len, c, 9);

	if (n != 8 && n != 9)
		return 0;
	if (strchr("DFIQUV", c[0]) || strchr("DFIQUVO", c[1]))
		return 0;
	for (size_t i = 0; i < lengthof(never); i++)
		if (memcmp(c, never[i], 2) == 0)
			return 0;
	return len;
}

static int
v_uk_nhs(const char *s, int len)
{
	DIGITS(10);
	return !mw_all_same(d, 10) && mw_weighted(d, "A98765432") % 11 != 1 &&
		(11 - mw_weighted(d, "A98765432") % 11) % 11 == d[9] ? len : 0;
}

static int
v_uk_utr(const char *s, int len)
{
	DIGITS(10);
	return "21987654321"[mw_weighted(d + 1, "6789A5432") % 11] - '0' == d[0] ? len : 0;
}

static int
v_ie_pps(const char *s, int len)
{
	char		c[9];
	int			n = mw_alnums(s, len, c, 9);
	int			sum = 0;

	if (n != 8 && n != 9)
		return 0;
	for (int i = 0; i < 7; i++)
		sum += (c[i] - '0') * (8 - i);
	if (n == 9 && c[8] != 'W')
		sum += (c[8] - 'A' + 1) * 9;
	return (sum % 23 == 0 ? 'W' : 'A' + sum % 23 - 1) == c[7] ? len : 0;
}

/* ---------- France, Belgium, Netherlands, Luxembourg, Switzerland ---------- */

static int
v_fr_nir(const char *s, int len)
{
	char		c[15];
	int			n = mw_alnums(s, len, c, 15);
	int64		v = 0;
	int64		less = 0;
	int			month;

	if (n != 15)
		return 0;
	if (c[6] == 'A' || c[6] == 'B')
	{
		less = c[6] == 'A' ? 1000000 : 2000000;
		c[6] = '0';
	}
	month = (c[3] - '0') * 10 + (c[4] - '0');
	if (!((month >= 1 && month <= 12) || (month >= 20 && month <= 42) || month >= 50))
		return 0;
	for (int i = 0; i < 13; i++)
		v = v * 10 + (c[i] - '0');
	return 97 - (v - less) % 97 == (c[13] - '0') * 10 + (c[14] - '0') ? len : 0;
}

static int
v_be_nn(const char *s, int len)
{
	int			month;
	int64		v;

	DIGITS(11);
	month = mw_two(d + 2);
	/* born before 2000 or after; months of numbers for strangers are 20 or 40 more, and 0 is unknown */
	if (month > 52 || month % 20 > 12 || mw_two(d + 4) > 31)
		return 0;
	v = mw_number(d, 9);
	if (v == 0)
		return 0;
	return 97 - v % 97 == mw_two(d + 9) || 97 - (v + INT64CONST(2000000000)) % 97 == mw_two(d + 9) ? len : 0;
}

static int
v_nl_bsn(const char *s, int len)
{
	DIGITS(9);
	return !mw_all_same(d, 9) && (mw_weighted(d, "98765432") - d[8]) % 11 == 0 ? len : 0;
}

static int
v_lu_nin(const char *s, int len)
{
	DIGITS(13);
	return mw_is_date(mw_number(d, 4), mw_two(d + 4), mw_two(d + 6)) && d[0] > 0 && d[0] < 3 && mw_luhn(d, 12) ? len : 0;
}

static int
v_ch_ahv(const char *s, int len)
{
	DIGITS(13);
	return (10 - mw_weighted(d, "131313131313") % 10) % 10 == d[12] ? len : 0;
}

/* ---------- Germany, Austria ---------- */

static int
v_de_tax_id(const char *s, int len)
{
	int			count[10] = {0};
	int			most = 0;
	int			missing = 0;

	DIGITS(11);
	for (int i = 0; i < 10; i++)
		count[d[i]]++;
	for (int i = 0; i < 10; i++)
	{
		most = Max(most, count[i]);
		missing += count[i] == 0;
	}
	/* of the first ten one digit stands twice or three times, the others once */
	if (d[0] == 0 || most < 2 || most > 3 || missing > 2)
		return 0;
	return mw_mod11_10(d, 11) ? len : 0;
}

static int
v_de_svnr(const char *s, int len)
{
	int			v[13];
	int			sum = 0;
	static const char weights[] = "212571212121";
	int			day;

	ALNUMS(12);
	for (int i = 0, k = 0; i < 12; i++)
		if (i == 8)
		{
			v[k++] = (c[i] - 'A' + 1) / 10;
			v[k++] = (c[i] - 'A' + 1) % 10;
		}
		else
			v[k++] = c[i] - '0';
	day = mw_two(v + 2);
	if (!mw_is_date(0, mw_two(v + 4), day > 50 ? day - 50 : day))
		return 0;
	for (int i = 0; i < 12; i++)
	{
		int			x = v[i] * (weights[i] - '0');

		sum += x / 10 + x % 10;
	}
	return sum % 10 == v[12] ? len : 0;
}

static int
v_de_id_card(const char *s, int len)
{
	char		c[11];
	int			n = mw_alnums(s, len, c, 11);
	int			digits = 0;
	int			sum = 0;

	if (n < 9)
		return 0;
	for (int i = 0; i < 9; i++)
	{
		int			v = mw_value(c[i]);

		digits += is_digit(c[i]) ? 1 : 0;
		sum += v * ("731"[i % 3] - '0');
	}
	if (digits == 0 || (n >= 10 && is_digit(c[9]) && sum % 10 != c[9] - '0'))
		return 0;
	return len;
}

static int
v_de_kvnr(const char *s, int len)
{
	int			v[11];
	int			sum = 0;

	ALNUMS(10);
	v[0] = (c[0] - 'A' + 1) / 10;
	v[1] = (c[0] - 'A' + 1) % 10;
	for (int i = 1; i < 10; i++)
		v[i + 1] = c[i] - '0';
	for (int i = 0; i < 10; i++)
	{
		int			x = v[i] * (i % 2 + 1);

		sum += x / 10 + x % 10;
	}
	return sum % 10 == v[10] ? len : 0;
}

static int
v_at_svnr(const char *s, int len)
{
	int			sum;

	DIGITS(10);
	sum = d[0] * 3 + d[1] * 7 + d[2] * 9 + mw_weighted(d + 4, "584216");
	return sum % 11 == d[3] && mw_two(d + 4) >= 1 && mw_two(d + 4) <= 31 && mw_two(d + 6) >= 1 && mw_two(d + 6) <= 15 ? len : 0;
}

/* ---------- Spain, Portugal, Italy, Greece ---------- */

static int
v_es_nif(const char *s, int len)
{
	static const char letters[] = "TRWAGMYFPDXBNJZSQVHLCKE";
	char		c[9];
	int			n = mw_alnums(s, len, c, 9);
	int			v = 0;
	int			i = 0;

	if (n != 8 && n != 9)
		return 0;
	if (is_letter(c[0]))
	{
		if (n != 9)
			return 0;
		v = c[0] == 'Y' ? 1 : c[0] == 'Z' ? 2 : 0;
		i = 1;
	}
	for (; i < n - 1; i++)
		v = v * 10 + (c[i] - '0');
	return letters[v % 23] == c[n - 1] ? len : 0;
}

static int
v_es_ssn(const char *s, int len)
{
	int64		v;

	DIGITS(12);
	v = mw_number(d + 2, 8);
	if (mw_two(d) < 1 || (mw_two(d) > 53 && mw_two(d) != 66))
		return 0;
	v = v < 10000000 ? v + mw_two(d) * INT64CONST(10000000) : mw_number(d, 10);
	return v % 97 == mw_two(d + 10) ? len : 0;
}

static int
v_pt_nif(const char *s, int len)
{
	int			check;

	DIGITS(9);
	check = 11 - mw_weighted(d, "98765432") % 11;
	return (check >= 10 ? 0 : check) == d[8] ? len : 0;
}

static int
v_pt_cc(const char *s, int len)
{
	int			v[12];

	ALNUMS(12);
	for (int i = 0; i < 12; i++)
		v[i] = mw_value(c[i]);
	return mw_luhn(v, 12) ? len : 0;
}

static int
v_it_fiscal_code(const char *s, int len)
{
	static const signed char odd_digit[] = {1, 0, 5, 7, 9, 13, 15, 17, 19, 21};
	static const signed char odd_letter[] = {
		1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23
	};
	int			sum = 0;

	ALNUMS(16);
	for (int i = 0; i < 15; i++)
		if (i % 2 == 0)
			sum += is_digit(c[i]) ? odd_digit[c[i] - '0'] : odd_letter[c[i] - 'A'];
		else
			sum += is_digit(c[i]) ? c[i] - '0' : c[i] - 'A';
	return 'A' + sum % 26 == c[15] ? len : 0;
}

static int
v_gr_amka(const char *s, int len)
{
	DIGITS(11);
	return mw_is_date(0, mw_two(d + 2), mw_two(d)) && mw_luhn(d, 11) ? len : 0;
}

static int
v_gr_afm(const char *s, int len)
{
	int			sum = 0;

	DIGITS(9);
	for (int i = 0; i < 8; i++)
		sum += d[i] << (8 - i);
	return !mw_all_same(d, 9) && sum % 11 % 10 == d[8] ? len : 0;
}

/* ---------- Nordic and Baltic countries ---------- */

static int
v_se_pnr(const char *s, int len)
{
	int			d[12];
	int			n = mw_digits(s, len, d, 12);
	int		   *t = d + (n == 12 ? 2 : 0);
	int			day;

	if (n != 10 && n != 12)
		return 0;
	day = mw_two(t + 4);
	return mw_is_date(0, mw_two(t + 2), day > 60 ? day - 60 : day) && mw_luhn(t, 10) ? len : 0;
}

static int
v_no_fnr(const char *s, int len)
{
	int			day,
				month;
	int			k1,
				k2;

	DIGITS(11);
	day = mw_two(d) > 40 ? mw_two(d) - 40 : mw_two(d);
	month = mw_two(d + 2) > 80 ? mw_two(d + 2) - 80 : mw_two(d + 2) > 40 ? mw_two(d + 2) - 40 : mw_two(d + 2);
	if (!mw_is_date(0, month, day))
		return 0;
	k1 = (11 - mw_weighted(d, "376189452") % 11) % 11;
	k2 = (11 - mw_weighted(d, "5432765432") % 11) % 11;
	return k1 == d[9] && k2 == d[10] ? len : 0;
}

static int
v_dk_cpr(const char *s, int len)
{
	DIGITS(10);
	return mw_is_date(0, mw_two(d + 2), mw_two(d)) ? len : 0;
}

static int
v_fi_hetu(const char *s, int len)
{
	static const char check[] = "0123456789ABCDEFHJKLMNPRSTUVWXY";
	int			d[9];
	char		last = s[len - 1];

	/* the sign between date and number is the century */
	if (len != 11 || mw_digits(s, 6, d, 6) != 6 || mw_digits(s + 7, 3, d + 6, 3) != 3)
		return 0;
	if (!mw_is_date(0, mw_two(d + 2), mw_two(d)) || mw_number(d + 6, 3) < 2)
		return 0;
	if (is_letter(last))
		last &= ~0x20;
	return check[mw_number(d, 9) % 31] == last ? len : 0;
}

static int
v_is_kt(const char *s, int len)
{
	int			day;

	DIGITS(10);
	day = mw_two(d) > 40 ? mw_two(d) - 40 : mw_two(d);
	if (!mw_is_date(0, mw_two(d + 2), day) || (d[9] != 0 && d[9] != 8 && d[9] != 9))
		return 0;
	return (11 - mw_weighted(d, "32765432") % 11) % 11 == d[8] ? len : 0;
}

/* Estonia and Lithuania have one rule */
static int
v_ee_ik(const char *s, int len)
{
	int			check;

	DIGITS(11);
	if (!mw_is_date(0, mw_two(d + 3), mw_two(d + 5)))
		return 0;
	check = mw_weighted(d, "1234567891") % 11;
	if (check == 10)
		check = mw_weighted(d, "3456789123") % 11 % 10;
	return check == d[10] ? len : 0;
}

static int
v_lv_pk(const char *s, int len)
{
	DIGITS(11);
	if (d[0] == 3 && d[1] >= 2)
		return len;				/* since 2017 without a date and without a check digit */
	if (!mw_is_date(0, mw_two(d + 2), mw_two(d)) || d[6] > 2)
		return 0;
	return (1101 - mw_weighted(d, "16379A5842")) % 11 % 10 == d[10] ? len : 0;
}

/* ---------- Poland, Czechia, Hungary, Romania, Bulgaria ---------- */

static int
v_pl_pesel(const char *s, int len)
{
	DIGITS(11);
	/* the century is in the month */
	if (!mw_is_date(0, mw_two(d + 2) % 20, mw_two(d + 4)))
		return 0;
	return (10 - mw_weighted(d, "1379137913") % 10) % 10 == d[10] ? len : 0;
}

static int
v_pl_nip(const char *s, int len)
{
	DIGITS(10);
	return d[0] > 0 && mw_weighted(d, "657234567") % 11 == d[9] ? len : 0;
}

static int
v_pl_id_card(const char *s, int len)
{
	/* 7 3 1, the check digit, 7 3 1 7 3 */
	static const char weights[] = "731073173";
	int			sum = 0;

	ALNUMS(9);
	for (int i = 0; i < 9; i++)
		sum += mw_value(c[i]) * (weights[i] - '0');
	return sum % 10 == c[3] - '0' ? len : 0;
}

static int
v_cz_rc(const char *s, int len)
{
	int			d[10];
	int			n = mw_digits(s, len, d, 10);
	int			month;

	if (n != 9 && n != 10)
		return 0;
	month = mw_two(d + 2);
	month = month > 70 ? month - 70 : month > 50 ? month - 50 : month > 20 ? month - 20 : month;
	if (!mw_is_date(0, month, mw_two(d + 4)))
		return 0;
	if (n == 9)
		return mw_two(d) <= 53 ? len : 0;	/* without a check digit until 1953 */
	return mw_number(d, 9) % 11 % 10 == d[9] ? len : 0;
}

static int
v_hu_taj(const char *s, int len)
{
	DIGITS(9);
	return !mw_all_same(d, 9) && mw_weighted(d, "37373737") % 10 == d[8] ? len : 0;
}

static int
v_hu_tax_id(const char *s, int len)
{
	DIGITS(10);
	return mw_weighted(d, "123456789") % 11 == d[9] ? len : 0;
}

static int
v_ro_cnp(const char *s, int len)
{
	int			check;

	DIGITS(13);
	if (!mw_is_date(0, mw_two(d + 3), mw_two(d + 5)) || mw_two(d + 7) < 1 || mw_two(d + 7) > 80)
		return 0;
	check = mw_weighted(d, "279146358279") % 11;
	return (check == 10 ? 1 : check) == d[12] ? len : 0;
}

static int
v_bg_egn(const char *s, int len)
{
	int			month;

	DIGITS(10);
	month = mw_two(d + 2) > 40 ? mw_two(d + 2) - 40 : mw_two(d + 2) > 20 ? mw_two(d + 2) - 20 : mw_two(d + 2);
	return mw_is_date(0, month, mw_two(d + 4)) && mw_weighted(d, "2485A9736") % 11 % 10 == d[9] ? len : 0;
}

/* ---------- Croatia, Slovenia, Serbia ---------- */

static int
v_hr_oib(const char *s, int len)
{
	DIGITS(11);
	return !mw_all_same(d, 11) && mw_mod11_10(d, 11) ? len : 0;
}

static int
v_jmbg(const char *s, int len)
{
	int			check;

	DIGITS(13);
	if (!mw_is_date(0, mw_two(d + 2), mw_two(d)) || (d[4] != 9 && d[4] != 0))
		return 0;
	check = 11 - mw_weighted(d, "765432765432") % 11;
	return (check > 9 ? 0 : check) == d[12] ? len : 0;
}

static int
v_si_tax_id(const char *s, int len)
{
	int			check;

	DIGITS(8);
	check = 11 - mw_weighted(d, "8765432") % 11;
	return check != 11 && (check == 10 ? 0 : check) == d[7] ? len : 0;
}

/* ---------- Ukraine, Russia, Kazakhstan, Turkey ---------- */

static int
v_ua_rntrc(const char *s, int len)
{
	int			sum;

	DIGITS(10);
	sum = -d[0] + mw_weighted(d + 1, "57946A57");
	return (sum % 11 + 11) % 11 % 10 == d[9] ? len : 0;
}

static int
v_ru_snils(const char *s, int len)
{
	int			sum;

	DIGITS(11);
	sum = mw_weighted(d, "987654321") % 101 % 100;
	return !mw_all_same(d, 9) && sum == mw_two(d + 9) ? len : 0;
}

static int
v_ru_inn(const char *s, int len)
{
	int			d[12];
	int			n = mw_digits(s, len, d, 12);

	if (n == 10)
		return mw_weighted(d, "24A359468") % 11 % 10 == d[9] ? len : 0;
	return n == 12 && mw_weighted(d, "724A359468") % 11 % 10 == d[10] &&
		mw_weighted(d, "3724A359468") % 11 % 10 == d[11] ? len : 0;
}

static int
v_kz_iin(const char *s, int len)
{
	int			check;

	DIGITS(12);
	if (!mw_is_date(0, mw_two(d + 2), mw_two(d + 4)) || d[6] > 6)
		return 0;
	check = mw_weighted(d, "123456789AB") % 11;
	if (check == 10)
		check = mw_weighted(d, "3456789AB12") % 11;
	return check == d[11] ? len : 0;
}

static int
v_tr_tckn(const char *s, int len)
{
	int			odd = 0,
				even = 0;

	DIGITS(11);
	for (int i = 0; i < 9; i += 2)
		odd += d[i];
	for (int i = 1; i < 8; i += 2)
		even += d[i];
	return d[0] > 0 && ((odd * 7 - even) % 10 + 10) % 10 == d[9] && (odd + even + d[9]) % 10 == d[10] ? len : 0;
}

const MwValidatorEntry mw_validators_europe[] = {
	{"at_svnr", v_at_svnr}, {"be_nn", v_be_nn}, {"bg_egn", v_bg_egn}, {"ch_ahv", v_ch_ahv}, {"cz_rc", v_cz_rc},
	{"de_id_card", v_de_id_card}, {"de_kvnr", v_de_kvnr}, {"de_svnr", v_de_svnr}, {"de_tax_id", v_de_tax_id},
	{"dk_cpr", v_dk_cpr}, {"ee_ik", v_ee_ik}, {"es_nif", v_es_nif}, {"es_ssn", v_es_ssn}, {"fi_hetu", v_fi_hetu},
	{"fr_nir", v_fr_nir}, {"gr_afm", v_gr_afm}, {"gr_amka", v_gr_amka}, {"hr_oib", v_hr_oib}, {"hu_taj", v_hu_taj},
	{"hu_tax_id", v_hu_tax_id}, {"ie_pps", v_ie_pps}, {"is_kt", v_is_kt}, {"it_fiscal_code", v_it_fiscal_code},
	{"jmbg", v_jmbg}, {"kz_iin", v_kz_iin}, {"lu_nin", v_lu_nin}, {"lv_pk", v_lv_pk}, {"nl_bsn", v_nl_bsn},
	{"no_fnr", v_no_fnr}, {"pl_id_card", v_pl_id_card}, {"pl_nip", v_pl_nip}, {"pl_pesel", v_pl_pesel},
	{"pt_cc", v_pt_cc}, {"pt_nif", v_pt_nif}, {"ro_cnp", v_ro_cnp}, {"ru_inn", v_ru_inn}, {"ru_snils", v_ru_snils},
	{"se_pnr", v_se_pnr}, {"si_tax_id", v_si_tax_id}, {"tr_tckn", v_tr_tckn}, {"ua_rntrc", v_ua_rntrc},
	{"uk_nhs", v_uk_nhs}, {"uk_nino", v_uk_nino}, {"uk_utr", v_uk_utr}, {NULL, NULL},
};
