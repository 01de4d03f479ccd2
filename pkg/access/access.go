// Package access says who a caller is, by the key he shows, and what he may do.
// It knows no RPC: rpcserver asks it for every call.
//
// A key is random and long, so its SHA-256 is kept in place of it, without salt
// or stretching: nobody guesses 256 bits.
package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// Role is something that a client may do.
type Role uint8

// The roles.
const (
	// RolePayment pays, inquires, and sees the client's own transactions.
	RolePayment Role = 1 << iota
	// RoleOps sees everything and settles what is in doubt.
	RoleOps
	// RoleCore is the core when it calls back.
	RoleCore
)

var roleNames = map[Role]string{RolePayment: "payment", RoleOps: "ops", RoleCore: "core"}

// String is the role's name in the clients' file.
func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	return fmt.Sprintf("INVALID(%d)", uint8(r))
}

// Roles is a set of roles.
type Roles uint8

// Of is the set of those roles.
func Of(roles ...Role) Roles {
	var set Roles
	for _, r := range roles {
		set |= Roles(r)
	}
	return set
}

// Has reports whether the role is in the set.
func (s Roles) Has(r Role) bool { return s&Roles(r) != 0 }

// Meets reports whether the sets have a role in common.
func (s Roles) Meets(o Roles) bool { return s&o != 0 }

// String lists the roles.
func (s Roles) String() string {
	var names []string
	for _, r := range []Role{RolePayment, RoleOps, RoleCore} {
		if s.Has(r) {
			names = append(names, r.String())
		}
	}
	return strings.Join(names, ",")
}

// Client is a caller who showed his key.
type Client struct {
	ID    ledger.ClientID
	Roles Roles
}

// Directory is who may call, by the digest of his key.
type Directory struct {
	clients map[digest]entry
	// pepper goes into each digest, so that the time of a look-up tells nothing of
	// the digests in the file.
	pepper [32]byte
}

type digest [sha256.Size]byte

type entry struct {
	sum    digest
	client Client
}

// file is the clients' file.
type file struct {
	Clients []fileClient `json:"clients"`
}

type fileClient struct {
	ID        string   `json:"id"`
	KeySHA256 string   `json:"key_sha256"`
	Roles     []string `json:"roles"`
}

// Read reads the clients' file.
func Read(path string) (*Directory, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--clients-file: %w", err)
	}
	d, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("--clients-file %s: %w", path, err)
	}
	return d, nil
}

// Parse reads the content of a clients' file. Its errors name the client by his
// place in the list and show nothing of a key.
func Parse(b []byte) (*Directory, error) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	var f file
	if err := decoder.Decode(&f); err != nil {
		return nil, fmt.Errorf("not JSON as it should be: %w", redacted(err))
	}
	if decoder.More() {
		return nil, errors.New("more than one JSON value")
	}
	if len(f.Clients) == 0 {
		return nil, errors.New("it lists no client")
	}
	d := &Directory{clients: make(map[digest]entry, len(f.Clients))}
	if _, err := rand.Read(d.pepper[:]); err != nil {
		return nil, fmt.Errorf("make a pepper: %w", err)
	}
	for i, c := range f.Clients {
		if err := d.add(c); err != nil {
			return nil, fmt.Errorf("client %d: %w", i+1, err)
		}
	}
	return d, nil
}

// redacted is a decoder's error without what stood in the file.
func redacted(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("bad syntax at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("%s has the wrong type", kind.Field)
	case strings.HasPrefix(err.Error(), "json: unknown field"):
		return errors.New("a field that is not known")
	default:
		return err
	}
}

func (d *Directory) add(c fileClient) error {
	if !validID(c.ID) {
		return errors.New("id must be 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	var sum digest
	n, err := hex.Decode(sum[:], []byte(c.KeySHA256[:min(len(c.KeySHA256), hex.EncodedLen(len(sum)))]))
	if err != nil || n != len(sum) || len(c.KeySHA256) != hex.EncodedLen(len(sum)) {
		return errors.New("key_sha256 must be 64 hex digits: the SHA-256 of the key")
	}
	if sum == sha256.Sum256(nil) {
		return errors.New("key_sha256 is that of the empty key")
	}
	client := Client{ID: ledger.ClientID(c.ID)}
	for _, name := range c.Roles {
		role, ok := roleOf(name)
		if !ok {
			return errors.New("roles must be of payment, ops and core")
		}
		client.Roles |= Roles(role)
	}
	if client.Roles == 0 {
		return errors.New("it has no role")
	}
	at := d.place(sum)
	if _, taken := d.clients[at]; taken {
		return errors.New("another entry has the same key")
	}
	d.clients[at] = entry{sum: sum, client: client}
	return nil
}

func roleOf(name string) (Role, bool) {
	for role, n := range roleNames {
		if n == name {
			return role, true
		}
	}
	return 0, false
}

// everyone is the name that callers have where nobody has to say who he is.
const everyone = "local"

func validID(id string) bool {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, bad)
}

// place is where the digest of a key stands.
func (d *Directory) place(sum digest) digest {
	return sha256.Sum256(slices.Concat(d.pepper[:], sum[:]))
}

// Find is the client whose key this is.
func (d *Directory) Find(key string) (Client, bool) {
	sum := digest(sha256.Sum256([]byte(key)))
	e, ok := d.clients[d.place(sum)]
	return e.client, ok && subtle.ConstantTimeCompare(e.sum[:], sum[:]) == 1
}

// IDs are the clients' names, each once, sorted.
func (d *Directory) IDs() []ledger.ClientID {
	var ids []ledger.ClientID
	for _, e := range d.clients {
		ids = append(ids, e.client.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Everyone is who calls where nobody has to say who he is: he may do all.
func Everyone() Client {
	return Client{ID: everyone, Roles: Of(RolePayment, RoleOps, RoleCore)}
}
