package operations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// What the services serve, so that their methods are known here.
	_ "google.golang.org/grpc/health/grpc_health_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

const securityPath = root + "/docs/security.md"

// keys are the keys of one client for each role.
var keys = map[string]string{
	"payment": "key-of-a-shop-that-pays-2f9c", "ops": "key-of-the-night-watch-77aa", "core": "key-of-the-core-itself-c0de",
}

// writeClients writes a clients' file in which a client, named as his role, has
// the key of that role.
func writeClients(t testing.TB, path string, keys map[string]string) {
	t.Helper()
	var entries []string
	for _, role := range slices.Sorted(maps.Keys(keys)) {
		sum := sha256.Sum256([]byte(keys[role]))
		entries = append(entries, fmt.Sprintf(`{"id":%q,"key_sha256":%q,"roles":[%q]}`, role, hex.EncodeToString(sum[:]), role))
	}
	if err := os.WriteFile(path, []byte(`{"clients":[`+strings.Join(entries, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// trio is the three services, before a SQLite ledger unless flags name another.
type trio struct {
	dir                       string
	core, payment, reconciler *process
}

// startTrio starts the three, the latter two with these flags too.
func startTrio(t testing.TB, flags ...string) *trio {
	t.Helper()
	s := &trio{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, "var"), 0o700); err != nil {
		t.Fatal(err)
	}
	clients := filepath.Join(s.dir, "clients.json")
	writeClients(t, clients, keys)
	s.core = start(t, s.dir, "corebank", "corebank", "--clients-file="+clients,
		"--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:var/book.db")
	reach := append([]string{
		"--clients-file=" + clients, "--core-addr=" + s.core.address(t, "frame"), "--listing-addr=" + s.core.address(t, "listing"),
	}, flags...)
	s.payment = start(t, s.dir, "payment", "payment", append(reach, "--read-timeout=1s")...)
	s.reconciler = start(t, s.dir, "reconciler", "reconciler", append(reach, "--sweep-interval=1s", "--late-window=1s")...)
	return s
}

// all is each service by its name.
func (s *trio) all() map[string]*process {
	return map[string]*process{"corebank": s.core, "payment": s.payment, "reconciler": s.reconciler}
}

// dialGRPC connects to a service.
func dialGRPC(t testing.TB, p *process) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.address(t, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// row is a line of the table of who may call what.
type accessRow struct {
	methods, roles, binaries []string
}

var accessLine = regexp.MustCompile("(?m)^\\| `([a-z0-9A-Z.]+)` \\| ([A-Za-z, ]+) \\| ([a-z, ]+) \\| ([a-z, ]+) \\|$")

// readAccess reads the table of docs/security.md, by service.
func readAccess(t testing.TB) map[string]accessRow {
	t.Helper()
	page, err := os.ReadFile(securityPath)
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]accessRow{}
	for _, m := range accessLine.FindAllStringSubmatch(string(page), -1) {
		table[m[1]] = accessRow{strings.Split(m[2], ", "), strings.Split(m[3], ", "), strings.Split(m[4], ", ")}
	}
	return table
}

// served are the services that a process says it serves.
func served(t testing.TB, conn *grpc.ClientConn) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(withKey(context.Background(), keys["ops"]), patience)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(list); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	return names
}

// methodsOf are those of a service's contract.
func methodsOf(t testing.TB, service string) []string {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	descriptor, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		t.Fatalf("%s is no service", service)
	}
	var names []string
	for i := range descriptor.Methods().Len() {
		names = append(names, string(descriptor.Methods().Get(i).Name()))
	}
	return names
}

func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "x-api-key", key)
}

// bytesCodec sends and receives bytes as they are.
type bytesCodec struct{ encoding.Codec }

// Name is that of the codec that servers expect.
func (bytesCodec) Name() string { return "proto" }

// Marshal takes bytes.
func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal gives bytes.
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// callEmpty calls any method with an empty message, and returns how it ended; OK
// if an answer came.
func callEmpty(t testing.TB, conn *grpc.ClientConn, path, key string) codes.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(withKey(context.Background(), key), patience)
	defer cancel()
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := conn.NewStream(ctx, both, path, grpc.ForceCodec(bytesCodec{}))
	if err != nil {
		return status.Code(err)
	}
	_ = stream.SendMsg(new([]byte)) // the answer says how it went
	_ = stream.CloseSend()
	return status.Code(stream.RecvMsg(new([]byte)))
}

// TestSecurity_WhoMayCallWhat asks the real binaries, with a key of each role and
// with none, for every method that they serve: docs/security.md says what must
// come of it.
func TestSecurity_WhoMayCallWhat(t *testing.T) {
	t.Parallel()
	table := readAccess(t)
	for binary, p := range startTrio(t).all() {
		conn := dialGRPC(t, p)
		var said []string
		for service, row := range table {
			if slices.Contains(row.binaries, binary) {
				said = append(said, service)
			}
		}
		slices.Sort(said)
		serves := served(t, conn)
		slices.Sort(serves)
		if !slices.Equal(said, serves) {
			t.Errorf("%s serves %v, and the page says %v", binary, serves, said)
		}
		for _, service := range said {
			row := table[service]
			if methods := methodsOf(t, service); !slices.Equal(methods, row.methods) {
				t.Errorf("%s has the methods %v, and the page says %v", service, methods, row.methods)
			}
			for _, method := range row.methods {
				askAll(t, conn, binary, "/"+service+"/"+method, row.roles)
			}
		}
		for _, path := range []string{"/gwanmun.payment.v1.PaymentService/Refund", "/a/b", "/grpc.health.v1.Healthy/Check"} {
			askAll(t, conn, binary, path, nil)
		}
	}
}

// askAll calls a path with each key and with none. Where nobody may, nobody is
// told whether it is there.
func askAll(t *testing.T, conn *grpc.ClientConn, binary, path string, roles []string) {
	t.Helper()
	for _, who := range []string{"nobody", "payment", "ops", "core"} {
		code := callEmpty(t, conn, path, keys[who])
		want := "let in"
		switch {
		case slices.Contains(roles, "anyone"), slices.Contains(roles, who):
		case who == "nobody":
			want = codes.Unauthenticated.String()
		default:
			want = codes.PermissionDenied.String()
		}
		got := code.String()
		if code != codes.Unauthenticated && code != codes.PermissionDenied && code != codes.Unimplemented {
			got = "let in"
		}
		if got != want {
			t.Errorf("%s: %s calls %s and is told %s, and the page says %s", binary, who, path, code, want)
		}
	}
}
