/* The list of the plugin's settings, to be shown to users. */
#ifndef WEFT_PLUGIN_SETTING_LIST_H
#define WEFT_PLUGIN_SETTING_LIST_H

struct plugin_setting {
    const char *name, *usual, *text;
};
/* Returns the settings in the order of their names; NULL past the last. */
const struct plugin_setting *plugin_setting_at(unsigned index);

#endif
