package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{root + "/docker-compose.yml"}, cli.WithWorkingDirectory(root))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose_HasTheServicesOfTheDesign(t *testing.T) {
	names := compose(t).ServiceNames()
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "corebank grafana jaeger payment postgres prometheus reconciler" {
		t.Errorf("services %s", got)
	}
}

func TestCompose_SetsNoVariableThatABinaryDoesNotRead(t *testing.T) {
	project := compose(t)
	for _, name := range services {
		service, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		for variable := range service.Environment {
			knowsVariable(t, name, variable)
		}
	}
}

func TestCompose_PublishesOnLoopbackAlone(t *testing.T) {
	for name, service := range compose(t).Services {
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q", name, port.Published, port.HostIP)
			}
			if name == "postgres" && (port.Published != "25432" || port.Target != 5432) {
				t.Errorf("postgres: %s to %d", port.Published, port.Target)
			}
		}
	}
}

func TestCompose_WhoNeedsTheLedgerWaitsUntilItIsHealthy(t *testing.T) {
	project := compose(t)
	check := project.Services["postgres"].HealthCheck
	if check == nil || !strings.Contains(strings.Join(check.Test, " "), "pg_isready -h 127.0.0.1") { // not the socket of a first start
		t.Errorf("postgres is healthy by %v", check)
	}
	for _, name := range []string{"payment", "reconciler"} {
		if c := project.Services[name].DependsOn["postgres"].Condition; c != types.ServiceConditionHealthy {
			t.Errorf("%s waits for %q", name, c)
		}
	}
}

// Each port in an address that a service listens at is one that another finds it
// at.
func TestCompose_FilesAndTargetsAreThere(t *testing.T) {
	project := compose(t)
	dockerfile, err := os.ReadFile(root + "/deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if service.Build == nil {
			if !regexp.MustCompile(`:v?\d+(\.\d+)*$`).MatchString(service.Image) {
				t.Errorf("%s: image %s has no version", name, service.Image)
			}
			continue
		}
		if !strings.Contains(string(dockerfile), "AS "+service.Build.Target+"\n") {
			t.Errorf("%s: no target %s", name, service.Build.Target)
		}
		for arg := range service.Build.Args {
			if !strings.Contains(string(dockerfile), "ARG "+arg+"=") {
				t.Errorf("%s: no build argument %s", name, arg)
			}
		}
		if service.Build.Args["VERSION"] == nil {
			t.Errorf("%s does not know its version", name)
		}
	}
}

// What the image copies is there, and the modules are all that go.work uses.
func TestDockerfile_CopiesWhatIsThere(t *testing.T) {
	b, err := os.ReadFile(root + "/deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.ReadFile(root + "/go.work")
	if err != nil {
		t.Fatal(err)
	}
	copied := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(string(b), -1) {
		for _, path := range strings.Fields(m[1]) {
			copied[path] = true
			if _, err := os.Stat(root + "/" + path); err != nil {
				t.Error(err)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\./(\w+)`).FindAllStringSubmatch(string(work), -1) {
		if !copied[m[1]] || !copied[m[1]+"/go.mod"] {
			t.Errorf("module %s is not copied", m[1])
		}
	}
}
