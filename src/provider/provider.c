/*
 * provider.c - the adapters there are.
 *
 * A new vendor is a file that defines an MwProvider, and a line here.
 */
#include "mw.h"

#include "provider/provider.h"

static const MwProvider *const providers[] = {
	&mw_provider_openai,
	&mw_provider_presidio,
	&mw_provider_fake
};

const MwProvider *
mw_provider_find(const char *api)
{
	for (int i = 0; i < lengthof(providers); i++)
	{
		if (strcmp(providers[i]->api, api) == 0)
			return providers[i];
	}
	return NULL;
}
