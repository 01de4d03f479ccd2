package cmdline

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
)

// checkDSNs refuses a data source name with an @ too many, or behind a slash. A
// driver takes what stands between two for the host, and what follows a slash for
// the database, and every error would tell the end of a password.
func checkDSNs(v reflect.Value, prefix string) error {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			if err := checkDSNs(value, prefix+field.Tag.Get("prefix")); err != nil {
				return err
			}
			continue
		}
		if field.Tag.Get("shown") != shownDSN {
			continue
		}
		before, _, _ := strings.Cut(text(value), "?")
		_, place, isURL := strings.Cut(before, "://")
		authority, path, _ := strings.Cut(place, "/")
		if isURL && (strings.Count(authority, "@") > 1 || strings.Contains(path, "@")) {
			return fmt.Errorf("--%s: an @ in a name or a password is written %%40, and a / is %%2F", prefix+flagName(field))
		}
	}
	return nil
}

// text is a value that is text, secret or not.
func text(v reflect.Value) string {
	if secret, ok := v.Interface().(Secret); ok {
		return secret.Reveal()
	}
	return v.String()
}

// showDSN is a DSN without any password that is in it: before the host, or in
// the query. What cannot be read is not shown.
func showDSN(dsn string) string {
	if strings.HasPrefix(dsn, "sqlite:") {
		return dsn
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		return hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return hidden
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Del(name)
		}
	}
	u.RawQuery, u.Fragment, u.RawFragment = query.Encode(), "", ""
	return u.String()
}
