package cmdline

import (
	"reflect"
	"slices"
	"strings"
)

// unread are the names of the variables in environ, NAME=value each, that look
// like settings and are none of cfg: misspelled ones, or another binary's. They
// are no fault, since services share their environment, and a default counts where
// somebody meant something else.
func unread(cfg any, environ []string) []string {
	read := variables(reflect.TypeOf(cfg).Elem(), "", variables(reflect.TypeFor[standard](), "", nil))
	var names []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && strings.HasPrefix(name, prefix) && !slices.Contains(read, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// variables are those of the flags in a struct, behind those that are there.
func variables(t reflect.Type, before string, names []string) []string {
	for i := range t.NumField() {
		field := t.Field(i)
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			names = variables(field.Type, before+field.Tag.Get("prefix"), names)
			continue
		}
		if name := flagName(field); name != "" {
			names = append(names, variable(before+name))
		}
	}
	return names
}
