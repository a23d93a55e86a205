// Package runner replaces the package of the same name when the reference's integration tests are compiled. It runs the
// service of this repository as a process with the same settings.
package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kelseyhightower/envconfig"
	gostats "github.com/lyft/gostats"

	"github.com/envoyproxy/ratelimit/src/settings"
)

// The variables that name Node and the service's program.
const (
	nodeVariable    = "TOLLWAY_NODE"
	programVariable = "TOLLWAY_RATELIMIT"
)

// Statistics with tags are read from the log sink, which writes this often.
const flushInterval = 50 * time.Millisecond

// A test that counts to a limit per minute fails when a minute ends during the test. A test takes a few seconds.
const testDuration = 8 * time.Second

// Runner runs one process of the service.
type Runner struct {
	process *process
}

type process struct {
	command *exec.Cmd
	debug   string
	ended   chan struct{}
	output  *output
}

// NewRunner prepares the process; Run starts it. It waits for the next minute when a test does not fit into this one.
func NewRunner(s settings.Settings) Runner {
	now := time.Now()
	if next := now.Truncate(time.Minute).Add(time.Minute); next.Sub(now) < testDuration {
		time.Sleep(next.Sub(now))
	}
	command := exec.Command(os.Getenv(nodeVariable), os.Getenv(programVariable))
	command.Env = append(environment(s), "DRAIN_DELAY=0s", "STATS_FLUSH_INTERVAL="+flushInterval.String())
	out := &output{}
	command.Stdout = out
	command.Stderr = out
	debug := fmt.Sprintf("http://127.0.0.1:%d/stats?format=json", s.DebugPort)
	return Runner{&process{command, debug, make(chan struct{}), out}}
}

// Run returns when the process has ended, and panics when it fails.
func (r *Runner) Run() {
	defer close(r.process.ended)
	if err := r.process.command.Run(); err != nil {
		panic(fmt.Sprintf("the service failed: %v\n%s", err, r.process.output.text()))
	}
}

// Stop ends the process and returns when it has ended.
func (r *Runner) Stop() {
	if r.process.command.Process == nil {
		return
	}
	_ = r.process.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.process.ended:
	case <-time.After(20 * time.Second):
		_ = r.process.command.Process.Kill()
		<-r.process.ended
	}
}

// GetStatsStore returns a view of the statistics of the process.
func (r *Runner) GetStatsStore() gostats.Store {
	return &store{gostats.NewStore(gostats.NewNullSink(), false), r.process}
}

// environment has every setting that differs from its default, under the reference's name.
func environment(s settings.Settings) []string {
	var defaults settings.Settings
	if err := envconfig.Process("UNLIKELY_PREFIX_", &defaults); err != nil {
		panic(err)
	}
	// On a busy machine the backend can be slow, and these tests do not test its speed.
	env := []string{"BACKEND_DEADLINE=5s", "LOG_LEVEL=info"}
	for _, name := range []string{"PATH", "HOME", "NODE_EXTRA_CA_CERTS", "NODE_COMPILE_CACHE", "USE_STATSD"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	value, initial := reflect.ValueOf(s), reflect.ValueOf(defaults)
	for i := range value.NumField() {
		name := value.Type().Field(i).Tag.Get("envconfig")
		if name == "" || reflect.DeepEqual(value.Field(i).Interface(), initial.Field(i).Interface()) {
			continue
		}
		env = append(env, name+"="+text(value.Field(i).Interface()))
	}
	return env
}

func text(value any) string {
	switch value := value.(type) {
	case []string:
		return strings.Join(value, ",")
	case map[string]string:
		var pairs []string
		for key, item := range value {
			pairs = append(pairs, key+":"+item)
		}
		sort.Strings(pairs)
		return strings.Join(pairs, ",")
	default:
		return fmt.Sprint(value)
	}
}

// output keeps what the process writes.
type output struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.Write(data)
}

func (o *output) text() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.String()
}

// store answers the reference's tests with the numbers of the process. Everything else is that of an empty store.
type store struct {
	emptyStore
	process *process
}

// emptyStore gives the field a name other than that of the method Store.
type emptyStore = gostats.Store

// Flush does nothing: every number is read when a test asks for it.
func (s *store) Flush() {}

func (s *store) NewCounter(name string) gostats.Counter {
	counter := gostats.NewStore(gostats.NewNullSink(), false).NewCounter(name)
	counter.Set(s.process.read(name))
	return counter
}

func (s *store) NewGauge(name string) gostats.Gauge {
	gauge := gostats.NewStore(gostats.NewNullSink(), false).NewGauge(name)
	gauge.Set(s.process.read(name))
	return gauge
}

func (s *store) NewCounterWithTags(name string, tags map[string]string) gostats.Counter {
	time.Sleep(4 * flushInterval)
	counter := gostats.NewStore(gostats.NewNullSink(), false).NewCounter(name)
	for _, line := range strings.Split(s.process.output.text(), "\n") {
		var written struct {
			Name, Type string
			Value      float64
			Tags       map[string]string
		}
		if json.Unmarshal([]byte(line), &written) != nil || written.Name != name {
			continue
		}
		if maps.Equal(written.Tags, tags) {
			counter.Add(uint64(written.Value))
		}
	}
	return counter
}

func (p *process) read(name string) uint64 {
	response, err := http.Get(p.debug)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	var numbers map[string]float64
	if err := json.NewDecoder(response.Body).Decode(&numbers); err != nil {
		panic(err)
	}
	return uint64(numbers[name])
}
