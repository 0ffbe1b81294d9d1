/*
 * validate_world.c - check digits of numbers that states outside Europe give
 * out, by the published rule of each.
 */
#include "util/validate_int.h"

/* ---------- the Americas ---------- */

static int
v_ca_sin(const char *s, int len)
{
	DIGITS(9);
	return d[0] != 8 && mw_number(d, 9) > 0 && mw_luhn(d, 9) ? len : 0;
}

/* the letters of Mexico's alphabet have no accents here but one, which no match has */
static int
v_mx_curp(const char *s, int len)
{
	static const char alphabet[] = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ";
	int			sum = 0;

	ALNUMS(18);
	for (int i = 0; i < 17; i++)
		sum += (int) (strchr(alphabet, c[i]) - alphabet) * (18 - i);
	if (!mw_is_date(0, (c[6] - '0') * 10 + c[7] - '0', (c[8] - '0') * 10 + c[9] - '0'))
		return 0;
	return (10 - sum % 10) % 10 == c[17] - '0' ? len : 0;
}

static int
v_mx_rfc(const char *s, int len)
{
	int			d[8];

	/* six digits of a date end three characters before the end */
	if (len < 12 || mw_digits(s + len - 9, 6, d, 6) != 6)
		return 0;
	return mw_is_date(0, mw_two(d + 2), mw_two(d + 4)) ? len : 0;
}

static int
v_mx_clabe(const char *s, int len)
{
	int			sum = 0;

	DIGITS(18);
	for (int i = 0; i < 17; i++)
		sum += d[i] * (i % 3 == 0 ? 3 : i % 3 == 1 ? 7 : 1) % 10;
	/* a bank of the list: 002 to 999, never 000 */
	return !mw_all_same(d, 18) && mw_number(d, 3) > 1 && (10 - sum % 10) % 10 == d[17] ? len : 0;
}

static int
v_br_cpf(const char *s, int len)
{
	int			k1,
				k2;

	DIGITS(11);
	if (mw_all_same(d, 11))
		return 0;
	k1 = mw_weighted(d, "A98765432") * 10 % 11 % 10;
	k2 = mw_weighted(d, "BA98765432") * 10 % 11 % 10;
	return k1 == d[9] && k2 == d[10] ? len : 0;
}

static int
v_br_cnpj(const char *s, int len)
{
	int			k1,
				k2;

	DIGITS(14);
	if (mw_all_same(d, 14))
		return 0;
	k1 = mw_weighted(d, "543298765432") * 10 % 11 % 10;
	k2 = mw_weighted(d, "6543298765432") * 10 % 11 % 10;
	return k1 == d[12] && k2 == d[13] ? len : 0;
}

static int
v_ar_cuit(const char *s, int len)
{
	int			check;

	DIGITS(11);
	check = 11 - mw_weighted(d, "5432765432") % 11;
	return (check == 11 ? 0 : check == 10 ? 9 : check) == d[10] ? len : 0;
}

static int
v_cl_rut(const char *s, int len)
{
	char		c[9];
	int			n = mw_alnums(s, len, c, 9);
	int			sum = 0;
	int			check;

	if (n != 8 && n != 9)
		return 0;
	for (int i = n - 2, w = 2; i >= 0; i--, w = w == 7 ? 2 : w + 1)
		sum += (c[i] - '0') * w;
	check = 11 - sum % 11;
	return (check == 11 ? '0' : check == 10 ? 'K' : '0' + check) == c[n - 1] ? len : 0;
}

static int
v_co_nit(const char *s, int len)
{
	static const int weights[] = {41, 37, 29, 23, 19, 17, 13, 7, 3};
	int			sum = 0;

	DIGITS(10);
	for (int i = 0; i < 9; i++)
		sum += d[i] * weights[i];
	sum %= 11;
	return (sum > 1 ? 11 - sum : sum) == d[9] ? len : 0;
}

static int
v_ec_ci(const char *s, int len)
{
	DIGITS(10);
	return ((mw_two(d) >= 1 && mw_two(d) <= 24) || mw_two(d) == 30) && d[2] < 6 && mw_luhn(d, 10) ? len : 0;
}

static int
v_uy_ci(const char *s, int len)
{
	DIGITS(8);
	return (10 - mw_weighted(d, "2987634") % 10) % 10 == d[7] ? len : 0;
}

/* ---------- East Asia ---------- */

static int
v_cn_id(const char *s, int len)
{
	int			d[18];
	char		last = s[len - 1];

	if (len != 18 || mw_digits(s, 17, d, 17) != 17)
		return 0;
	if (d[0] > 8 || mw_two(d) < 11 || !mw_is_date(mw_number(d + 6, 4), mw_two(d + 10), mw_two(d + 12)))
		return 0;
	return "10X98765432"[mw_weighted(d, "79A584216379A5842") % 11] == (is_letter(last) ? last & ~0x20 : last) ? len : 0;
}

static int
v_cn_id15(const char *s, int len)
{
	DIGITS(15);
	return mw_is_date(0, mw_two(d + 8), mw_two(d + 10)) ? len : 0;
}

static int
v_tw_id(const char *s, int len)
{
	/* letters in the order of their numbers, from 10 on */
	static const char order[] = "ABCDEFGHJKLMNPQRSTUVXYWZIO";
	int			n;
	int			sum;

	ALNUMS(10);
	n = (int) (strchr(order, c[0]) - order) + 10;
	sum = n / 10 + n % 10 * 9;
	n = is_letter(c[1]) ? (int) (strchr(order, c[1]) - order) % 10 : c[1] - '0';
	sum += n * 8;
	for (int i = 2; i < 9; i++)
		sum += (c[i] - '0') * (9 - i);
	return (sum + c[9] - '0') % 10 == 0 ? len : 0;
}

static int
v_hk_id(const char *s, int len)
{
	char		c[9];
	int			n = mw_alnums(s, len, c, 9);
	int			sum = 0;
	int			check;

	if (n != 8 && n != 9)
		return 0;
	/* one letter stands as if a blank, 36, were before it */
	if (n == 8)
		sum = 36 * 9;
	for (int i = 0; i < n - 1; i++)
		sum += mw_value(c[i]) * (n - i);
	check = 11 - sum % 11;
	return (check == 11 ? '0' : check == 10 ? 'A' : '0' + check) == c[n - 1] ? len : 0;
}

static int
v_jp_mynumber(const char *s, int len)
{
	int			rest;

	DIGITS(12);
	rest = mw_weighted(d, "65432765432") % 11;
	return !mw_all_same(d, 12) && (rest <= 1 ? 0 : 11 - rest) == d[11] ? len : 0;
}

static int
v_kr_rrn(const char *s, int len)
{
	DIGITS(13);
	/* numbers given since 2020 have no check digit */
	return mw_is_date(0, mw_two(d + 2), mw_two(d + 4)) ? len : 0;
}

/* ---------- South-East Asia and Oceania ---------- */

static int
v_sg_nric(const char *s, int len)
{
	int			d[7];
	int			sum;
	char		first = s[0] & ~0x20;
	char		last = s[len - 1] & ~0x20;
	const char *letters;

	if (len != 9 || mw_digits(s, len, d, 7) != 7)
		return 0;
	sum = mw_weighted(d, "2765432");
	if (first == 'T' || first == 'G')
		sum += 4;
	else if (first == 'M')
		sum += 3;
	letters = first == 'S' || first == 'T' ? "JZIHGFEDCBA" : first == 'M' ? "XWUTRQPNJLK" : "XWUTRQPNMLK";
	return letters[sum % 11] == last ? len : 0;
}

static int
v_my_nric(const char *s, int len)
{
	int			place;

	DIGITS(12);
	place = mw_two(d + 6);
	if (place == 0 || (place >= 17 && place <= 20) || place == 69 || place == 70 || place == 73 || place == 80 ||
		place == 81 || (place >= 94 && place <= 97))
		return 0;
	return mw_is_date(0, mw_two(d + 2), mw_two(d + 4)) ? len : 0;
}

static int
v_th_tnin(const char *s, int len)
{
	DIGITS(13);
	return (11 - mw_weighted(d, "DCBA98765432") % 11) % 10 == d[12] ? len : 0;
}

static int
v_id_nik(const char *s, int len)
{
	int			day;

	DIGITS(16);
	day = mw_two(d + 6) > 40 ? mw_two(d + 6) - 40 : mw_two(d + 6);
	return mw_two(d) >= 11 && mw_two(d) <= 96 && mw_is_date(0, mw_two(d + 8), day) ? len : 0;
}

static int
v_au_tfn(const char *s, int len)
{
	int			d[9];
	int			n = mw_digits(s, len, d, 9);

	if (n == 8)
		return mw_weighted(d, "A7846351") % 11 == 0 ? len : 0;
	return n == 9 && !mw_all_same(d, 9) && mw_weighted(d, "14375869A") % 11 == 0 ? len : 0;
}

static int
v_au_medicare(const char *s, int len)
{
	int			d[11];
	int			n = mw_digits(s, len, d, 11);

	return (n == 10 || n == 11) && mw_weighted(d, "13791379") % 10 == d[8] ? len : 0;
}

static int
v_au_abn(const char *s, int len)
{
	DIGITS(11);
	d[0]--;
	return (d[0] * 10 + mw_weighted(d + 1, "13579BDFHJ")) % 89 == 0 ? len : 0;
}

static int
v_au_acn(const char *s, int len)
{
	DIGITS(9);
	return (10 - mw_weighted(d, "87654321") % 10) % 10 == d[8] ? len : 0;
}

static int
v_nz_ird(const char *s, int len)
{
	int			d[9];
	int			n = mw_digits(s, len, d + 1, 8);
	int			check;

	if (n == 8)
		d[0] = 0;
	else if (n != 9 || mw_digits(s, len, d, 9) != 9)
		return 0;
	if (mw_number(d, 9) < 10000000 || mw_number(d, 9) > 150000000)
		return 0;
	check = (11 - mw_weighted(d, "32765432") % 11) % 11;
	if (check == 10)
		check = (11 - mw_weighted(d, "74325276") % 11) % 11;
	return check == d[8] ? len : 0;
}

static int
v_nz_nhi(const char *s, int len)
{
	static const char letters[] = "ABCDEFGHJKLMNPQRSTUVWXYZ";
	int			sum = 0;

	ALNUMS(7);
	for (int i = 0; i < 6; i++)
		sum += (is_digit(c[i]) ? c[i] - '0' : (int) (strchr(letters, c[i]) - letters) + 1) * (7 - i);
	if (is_letter(c[6]))
		return letters[23 - sum % 24] == c[6] ? len : 0;
	return sum % 11 != 0 && (11 - sum % 11) % 10 == c[6] - '0' ? len : 0;
}

/* ---------- South Asia ---------- */

static int
v_in_aadhaar(const char *s, int len)
{
	/* Verhoeff: the dihedral group of ten elements, and its permutation */
	static const uint8 mul[10][10] = {
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 0, 6, 7, 8, 9, 5}, {2, 3, 4, 0, 1, 7, 8, 9, 5, 6},
		{3, 4, 0, 1, 2, 8, 9, 5, 6, 7}, {4, 0, 1, 2, 3, 9, 5, 6, 7, 8}, {5, 9, 8, 7, 6, 0, 4, 3, 2, 1},
		{6, 5, 9, 8, 7, 1, 0, 4, 3, 2}, {7, 6, 5, 9, 8, 2, 1, 0, 4, 3}, {8, 7, 6, 5, 9, 3, 2, 1, 0, 4},
		{9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
	};
	static const uint8 perm[8][10] = {
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 5, 7, 6, 2, 8, 3, 0, 9, 4}, {5, 8, 0, 3, 7, 9, 6, 1, 4, 2},
		{8, 9, 1, 6, 0, 4, 3, 5, 2, 7}, {9, 4, 5, 3, 1, 2, 6, 8, 7, 0}, {4, 2, 8, 6, 5, 7, 3, 9, 0, 1},
		{2, 7, 9, 3, 8, 0, 6, 4, 1, 5}, {7, 0, 4, 6, 9, 1, 3, 2, 5, 8},
	};
	int			check = 0;

	DIGITS(12);
	for (int i = 0; i < 12; i++)
		check = mul[check][perm[i % 8][d[11 - i]]];
	return check == 0 && !mw_all_same(d, 12) ? len : 0;
}

static int
v_in_gstin(const char *s, int len)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	int			sum = 0;

	ALNUMS(15);
	for (int i = 0; i < 14; i++)
	{
		int			v = (int) (strchr(digits, c[i]) - digits) * (i % 2 + 1);

		sum += v / 36 + v % 36;
	}
	return digits[(36 - sum % 36) % 36] == c[14] ? len : 0;
}

/* ---------- Middle East and Africa ---------- */

static int
v_il_id(const char *s, int len)
{
	int			d[9];
	int			n = mw_digits(s, len, d + 1, 8);

	if (n == 8)
		d[0] = 0;
	else if (n != 9 || mw_digits(s, len, d, 9) != 9)
		return 0;
	return mw_number(d, 9) > 0 && mw_luhn(d, 9) ? len : 0;
}

static int
v_ae_eid(const char *s, int len)
{
	DIGITS(15);
	return mw_luhn(d, 15) ? len : 0;
}

static int
v_eg_id(const char *s, int len)
{
	DIGITS(14);
	return mw_is_date(0, mw_two(d + 3), mw_two(d + 5)) && mw_two(d + 7) >= 1 && mw_two(d + 7) <= 88 ? len : 0;
}

static int
v_kw_civil_id(const char *s, int len)
{
	DIGITS(12);
	return mw_is_date(0, mw_two(d + 3), mw_two(d + 5)) && 11 - mw_weighted(d, "2163791A584") % 11 == d[11] ? len : 0;
}

static int
v_ir_nid(const char *s, int len)
{
	int			rest;

	DIGITS(10);
	rest = mw_weighted(d, "A98765432") % 11;
	return !mw_all_same(d, 10) && (rest < 2 ? rest : 11 - rest) == d[9] ? len : 0;
}

static int
v_za_id(const char *s, int len)
{
	DIGITS(13);
	return mw_is_date(0, mw_two(d + 2), mw_two(d + 4)) && d[10] <= 2 && mw_luhn(d, 13) ? len : 0;
}

const MwValidatorEntry mw_validators_world[] = {
	{"ae_eid", v_ae_eid}, {"ar_cuit", v_ar_cuit}, {"au_abn", v_au_abn}, {"au_acn", v_au_acn},
	{"au_medicare", v_au_medicare}, {"au_tfn", v_au_tfn}, {"br_cnpj", v_br_cnpj}, {"br_cpf", v_br_cpf},
	{"ca_sin", v_ca_sin}, {"cl_rut", v_cl_rut}, {"cn_id", v_cn_id}, {"cn_id15", v_cn_id15}, {"co_nit", v_co_nit},
	{"ec_ci", v_ec_ci}, {"eg_id", v_eg_id}, {"hk_id", v_hk_id}, {"id_nik", v_id_nik}, {"il_id", v_il_id},
	{"in_aadhaar", v_in_aadhaar}, {"in_gstin", v_in_gstin}, {"ir_nid", v_ir_nid}, {"jp_mynumber", v_jp_mynumber},
	{"kr_rrn", v_kr_rrn}, {"kw_civil_id", v_kw_civil_id}, {"mx_clabe", v_mx_clabe}, {"mx_curp", v_mx_curp},
	{"mx_rfc", v_mx_rfc}, {"my_nric", v_my_nric}, {"nz_ird", v_nz_ird}, {"nz_nhi", v_nz_nhi}, {"sg_nric", v_sg_nric},
	{"th_tnin", v_th_tnin}, {"tw_id", v_tw_id}, {"uy_ci", v_uy_ci}, {"za_id", v_za_id}, {NULL, NULL},
};
