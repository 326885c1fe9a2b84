package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

func TestATrainInAnEnvironment(t *testing.T) {
	production := Environment{"shop/web", "production"}
	for name, test := range map[string]struct {
		train  *Train
		back   bool
		answer intent.Answer
		says   string
	}{
		"no train":            {&Train{At: now}, false, intent.Pass, ""},
		"a train":             {&Train{At: now, Release: 7, Version: "1.8.0", Since: now.Add(-time.Hour)}, false, intent.Wait, "release 7 is in production of shop/web with version 1.8.0 since 2026-03-01T11:00:00Z: that is shown and not enforced until all is good with it, and no longer than until 2026-03-01T13:00:00Z"},
		"nearly over":         {&Train{At: now, Release: 7, Since: now.Add(-2*time.Hour + time.Second)}, false, intent.Wait, "release 7"},
		"its time is over":    {&Train{At: now, Release: 7, Since: now.Add(-2 * time.Hour)}, false, intent.Pass, ""},
		"it goes back":        {&Train{At: now, Release: 7, Since: now}, true, intent.Pass, ""},
		"it is not known":     {&Train{At: now, Err: errors.New("there is no environment production of an application shop/web")}, false, intent.Broken, "there is no environment production"},
		"nobody asked (S11)":  {nil, false, intent.Broken, "is not known"},
		"of its clock's past": {&Train{At: now, Release: 7, Since: now.Add(time.Minute)}, false, intent.Wait, "release 7"},
	} {
		c := Configure(&intentpb.Check{Name: "by-hand", Kind: &intentpb.Check_Train{Train: &intentpb.Train{Application: "shop/web", Environment: "production", Longest: durationpb.New(2 * time.Hour)}}}, builtin)
		f := Facts{Now: now, Back: test.back}
		if test.train != nil {
			f.Trains = map[Environment]Train{production: *test.train, {"shop/web", "test"}: {}}
		}
		v := f.configured(Required{Configured: c})
		if v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) {
			t.Errorf("%s: %+v", name, v)
		}
		if v.Answer == intent.Wait && (v.Waiting.Kind != intent.WaitTrain || !v.Waiting.Until.Equal(test.train.Since.Add(2*time.Hour))) {
			t.Errorf("%s: it waits for %+v", name, v.Waiting)
		}
		if v.Answer == intent.Pass && !test.back && !v.Until.Equal(now.Add(timely)) {
			t.Errorf("%s: it passes until %s", name, v.Until)
		}
	}
}
