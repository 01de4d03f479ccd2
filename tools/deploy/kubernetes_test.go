package deploy

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifests are what kustomize makes, decoded without leniency.
func manifests(t *testing.T) []runtime.Object {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root+"/deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", r.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects
}

func TestKubernetes_ManifestsFitTheirTypesAndTheBinaries(t *testing.T) {
	budgets, deployments := map[string]bool{}, map[string]bool{}
	for _, object := range manifests(t) {
		switch o := object.(type) {
		case *policyv1.PodDisruptionBudget:
			budgets[o.Name] = true
		case *corev1.ConfigMap:
			for variable := range o.Data {
				for _, name := range []string{"payment", "reconciler"} { // which both take all of it
					knowsVariable(t, name, variable)
				}
			}
		case *appsv1.Deployment:
			deployments[o.Name] = true
			checkDeployment(t, o)
		}
	}
	for _, name := range []string{"payment", "reconciler"} {
		if !budgets[name] || !deployments[name] {
			t.Errorf("%s: deployment %t, budget %t", name, deployments[name], budgets[name])
		}
	}
}

func checkDeployment(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	for _, arg := range c.Args {
		knowsFlag(t, d.Name, arg)
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("%s: probe %v", d.Name, probe)
		}
	}
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= 15 { // --shutdown-timeout
		t.Errorf("%s: grace of %v", d.Name, grace)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s: no volume %s", d.Name, m.Name)
		}
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("%s may do more than it needs", d.Name)
	}
}

// --admin-insecure says that a network keeps strangers from the admin port.
func TestKubernetes_TheAdminPortIsNotForEveryPod(t *testing.T) {
	open, guarded := map[string]bool{}, map[string]bool{}
	for _, object := range manifests(t) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			open[o.Spec.Selector.MatchLabels["app.kubernetes.io/name"]] = slices.Contains(o.Spec.Template.Spec.Containers[0].Args, "--admin-insecure")
		case *networkingv1.NetworkPolicy:
			guarded[o.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"]] = !admits(o, "admin") && admits(o, "grpc")
		}
	}
	for name, isOpen := range open {
		if isOpen && !guarded[name] {
			t.Errorf("every pod reaches the admin port of %s", name)
		}
	}
}

// admits reports whether a policy lets everyone in to a port.
func admits(p *networkingv1.NetworkPolicy, port string) bool {
	for _, rule := range p.Spec.Ingress {
		if len(rule.From) > 0 {
			continue
		}
		for _, to := range rule.Ports {
			if to.Port.StrVal == port {
				return true
			}
		}
		if len(rule.Ports) == 0 {
			return true
		}
	}
	return false
}
