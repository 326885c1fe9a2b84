package prodspec_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
)

// setOutputs writes the document of outputs, or sets fields of it on a revision.
func (w *world) setOutputs(base, content string) {
	w.t.Helper()
	ctx := w.t.(*testing.T).Context()
	var err error
	if base == "" {
		_, err = w.store.CreateDocument(ctx, "shop", outputs.Document, []byte(content), "told", person)
	} else {
		path, value, _ := strings.Cut(content, "=")
		_, err = w.store.EditDocument(ctx, "shop", outputs.Document, document.Edit{Base: base, Operations: []document.Operation{{Path: path, Value: []byte(value)}}, Reason: "told"}, person)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) job(sequence intent.Sequence, id intent.AssetID) *processpb.Job {
	w.t.Helper()
	payload, err := schema.Builtin().Unpack(w.content(sequence, id).Payload)
	if err != nil {
		w.t.Fatal(err)
	}
	return payload.(*processpb.Job)
}

// reads tells which outputs an asset asks for, the unknown ones with a question mark.
func (w *world) reads(sequence intent.Sequence, id intent.AssetID) (list []string) {
	w.t.Helper()
	addon := &intentpb.ReadsOutputs{}
	if _, err := schema.Addon(w.content(sequence, id), addon); err != nil {
		w.t.Fatal(err)
	}
	for _, read := range addon.Reads {
		text := read.Asset + "#" + read.Output
		if read.Unknown {
			text += "?"
		}
		list = append(list, text)
	}
	return list
}

const asks = "id: job/web\ntype: Job\npayload: {name: web, binary: /bin/web, version: \"1\", replicas: 2, args: [\"--at=${output:job/base#address}\", \"$${output:x}\"]}\n"

// TestOutputsBecomeIntent: what payloads ask for is filled in once it is told, in texts and
// in JSON; until then it stays as it is and is marked; nothing runs for it; who told it is
// found.
func TestOutputsBecomeIntent(t *testing.T) {
	w := addonWorld(t, "", "", "")
	w.write("jobs/web.yaml", asks)
	w.write("objects/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  annotations: {a: \"${output:job/base#port}\"}\ndata: {url: \"http://${output:job/base#address}/\"}\n")
	w.start()
	before := w.served(1)
	if args := w.job(1, "job/web").Args; args[0] != "--at=${output:job/base#address}" || args[1] != "${output:x}" {
		t.Errorf("args are %q", args)
	}
	if got := w.reads(1, "job/web"); len(got) != 1 || got[0] != "job/base#address?" {
		t.Errorf("job/web reads %q", got)
	}
	w.setOutputs("", `{"job/base": {"address": "10.0.0.1:80", "port": 80}}`)
	after := w.served(2)
	if args := w.job(2, "job/web").Args; args[0] != "--at=10.0.0.1:80" {
		t.Errorf("args are %q", args)
	}
	if got := w.reads(2, "job/web"); len(got) != 1 || got[0] != "job/base#address" {
		t.Errorf("job/web reads %q", got)
	}
	payload, err := schema.Builtin().Unpack(w.content(2, settingsAsset).Payload)
	if err != nil {
		t.Fatal(err)
	}
	if text := payload.(*kubernetespb.Object).Json; !strings.Contains(text, `"a":80`) || !strings.Contains(text, `"url":"http://10.0.0.1:80/"`) {
		t.Errorf("the object is %s", text)
	}
	if after.Executions != before.Executions {
		t.Errorf("%d runs for it", after.Executions-before.Executions)
	}
	blame := w.blame(2, "job/web", "payload.args[0]")
	if len(blame.Origin.Derived) == 0 || blame.Origin.Derived[0].Place.File != outputs.File() || blame.Origin.Derived[0].Place.Source != outputs.Document || blame.Origin.Derived[0].Was != "${output:job/base#address}" {
		t.Errorf("blame tells %+v", blame.Origin.Derived)
	}

	// What one output changes is not what does not ask for it.
	w.setOutputs("1", `/job~1base/port=81`)
	w.served(3)
	incarnation, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 3})
	if err != nil || incarnation.Changed != 1 || incarnation.Added != 0 || incarnation.Removed != 0 {
		t.Errorf("incarnation %+v, %v", incarnation, err)
	}
}

// TestOutputsInACircleAreRefused: by what payloads ask for, and by a generator that reads
// the whole document.
func TestOutputsInACircleAreRefused(t *testing.T) {
	w := addonWorld(t, "", "", "")
	w.write("jobs/web.yaml", asks)
	w.write("base/base.yaml", "id: job/base\ntype: Job\npayload: {name: base, binary: /bin/base, version: \"${output:job/web#v}\", replicas: 2}\n")
	built := w.build()
	if text := findings(built); !strings.Contains(text, "job/base") || !strings.Contains(text, "job/web") {
		t.Errorf("findings:\n%s", text)
	}
}

// TestWrongOutputsAreTold: what is wrong is told with its place.
func TestWrongOutputsAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"${output:job/base}":          "has no #",
		"${output:job/base#address":   "has no }",
		"${output:Job#x}":             "is not of the form",
		"${output:job/absent#x}":      "job/absent",
		"${output:job/base#1st}":      "is not of the form",
		"a ${output:shop//job/base#}": "from 1 to 100",
	} {
		t.Run(text, func(t *testing.T) {
			w := addonWorld(t, "", "", "")
			w.write("jobs/web.yaml", strings.ReplaceAll(asks, "${output:job/base#address}", text))
			built := w.build()
			if told := findings(built); !strings.Contains(told, want) || !strings.Contains(told, "jobs/web.yaml") {
				t.Errorf("findings, which lack %q:\n%s", want, told)
			}
		})
	}
}

func findings(built prodspec.Built) string {
	var text strings.Builder
	for _, f := range built.Findings {
		text.WriteString(string(f.Severity) + " " + f.File + ": " + f.Message + " / " + f.Hint + "\n")
	}
	return text.String()
}

// TestAnObjectNamesItsOutputs: by annotations, which are no part of what is pushed. A Secret
// names none.
func TestAnObjectNamesItsOutputs(t *testing.T) {
	w := addonWorld(t, "", "", "  annotations:\n    lehr.dev/output.ip: /status/ip\n    lehr.dev/output.port: /spec/ports/0/port\n")
	w.start()
	w.served(1)
	payload, err := schema.Builtin().Unpack(w.content(1, settingsAsset).Payload)
	if err != nil {
		t.Fatal(err)
	}
	object := payload.(*kubernetespb.Object)
	if len(object.Outputs) != 2 || object.Outputs["ip"] != "/status/ip" || strings.Contains(object.Json, "lehr.dev/") {
		t.Errorf("it tells %v, and is %s", object.Outputs, object.Json)
	}
	w = addonWorld(t, "", "", "")
	w.write("objects/key.yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\n  annotations:\n    lehr.dev/output.key: /data/key\n")
	if built := w.build(); !strings.Contains(findings(built), "no output is told of a Secret") {
		t.Errorf("findings:\n%s", findings(built))
	}
}
