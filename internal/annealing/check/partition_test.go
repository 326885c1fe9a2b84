package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

func TestAnotherPartition(t *testing.T) {
	for name, test := range map[string]struct {
		asked  uint32
		other  Other
		answer intent.Answer
		says   string
	}{
		"in sync":             {100, Other{At: now, Total: 7, InSync: 7}, intent.Pass, ""},
		"nearly":              {100, Other{At: now, Total: 1000, InSync: 999}, intent.Wait, "99% of partition platform is in sync, and 100% must be"},
		"as much as asked":    {95, Other{At: now, Total: 100, InSync: 95}, intent.Pass, ""},
		"not so much":         {95, Other{At: now, Total: 100, InSync: 94}, intent.Wait, "94%"},
		"stopped":             {0, Other{At: now, Total: 7, InSync: 7, Stopped: true}, intent.Wait, "partition platform is stopped"},
		"only not stopped":    {0, Other{At: now, Total: 7}, intent.Pass, ""},
		"nothing yet":         {1, Other{At: now}, intent.Wait, "enforces nothing yet"},
		"of each other":       {1, Other{At: now, Back: true}, intent.Wait, "it waits for this partition too"},
		"there is none":       {0, Other{Err: errors.New("there is no partition platform")}, intent.Broken, "there is no partition platform"},
		"nobody looked (S11)": {0, Other{}, intent.Broken, "not known"},
	} {
		c := Configure(&intentpb.Check{Name: "platform", Kind: &intentpb.Check_Partition{Partition: &intentpb.OtherPartition{Id: "platform", InSync: test.asked}}}, builtin)
		f := Facts{Now: now}
		if test.other != (Other{}) {
			f.Others = map[intent.PartitionID]Other{"platform": test.other}
		}
		v := c.judge(f)
		if v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) || v.Answer == intent.Pass && !v.Until.Equal(now.Add(10*time.Second)) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
