/* The plugin's settings, for whoever shows them. */
#ifndef WEFT_PLUGIN_SETTING_LIST_H
#define WEFT_PLUGIN_SETTING_LIST_H

struct plugin_setting {
    const char *name, *usual, *text;
};
/* By name. NULL past the last. */
const struct plugin_setting *plugin_setting_at(unsigned index);

#endif
