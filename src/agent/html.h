/*
 * html.h - pages of HTML, in which no text of anybody's is markup.
 */
#ifndef MW_HTML_H
#define MW_HTML_H

#include "mw.h"

/*
 * Append a piece of a page.  Of the format only %s (a C string in UTF-8) and %d
 * (an int) are known; what %s stands for is escaped, for text and for attributes
 * in quotation marks, and shows what is hidden in it as mw.visible() does.
 */
extern void mw_html(StringInfo page, const char *format, ...) pg_attribute_printf(2, 3);

/* A page's first and last part; title as %s of mw_html() */
extern void mw_html_begin(StringInfo page, const char *title);
extern void mw_html_end(StringInfo page);

#endif
