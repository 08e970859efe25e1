// A native worker in Go: claims jobs, reports their start and outcome, acknowledges, and sends heartbeats. See
// docs/reference/control-protocol.md. The gateway does the rest: retries, delays and dead letters.
//
//	AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2Fojs OJS_QUEUE=email go run worker.go
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	exchange    = "ojs.exchange.direct"
	concurrency = 5
	answerTime  = time.Second
	silence     = 30 * time.Second
	// The gateway's OJS_VISIBILITY_TIMEOUT_MS: the lease of a job that names none.
	defaultLease = 30_000
	maxBeat      = 5 * time.Second
	minBeat      = 50 * time.Millisecond
	maxMessage   = 10_000
	maxResult    = 1 << 20
	maxDepth     = 31
	// The largest job that fits into a report. The gateway takes reports of 7 MiB by default.
	maxShown = 7<<20 - 64<<10
)

// One for each process: two that share an id would be given each other's jobs.
var workerID = fmt.Sprintf("go-%s-%d", hostname(), os.Getpid())

func hostname() string {
	name, _ := os.Hostname()
	return name
}

type job struct {
	ID         string            `json:"id"`
	Type       string            `json:"type"`
	Queue      string            `json:"queue"`
	Args       []json.RawMessage `json:"args"`
	Generation int64             `json:"x_ojs_generation"`
	LeaseMS    float64           `json:"visibility_timeout_ms"`
}

// beat is how often a running job needs a heartbeat: three times in its lease.
func (j job) beat() time.Duration {
	lease := j.LeaseMS
	if lease <= 0 {
		lease = defaultLease
	}
	if beat := time.Duration(lease/3) * time.Millisecond; beat > minBeat {
		return beat
	}
	return minBeat
}

type jobError struct {
	Code      string `json:"code"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

type event struct {
	JobID      string    `json:"job_id"`
	Generation int64     `json:"generation"`
	Attempt    int32     `json:"attempt"`
	Event      string    `json:"event"`
	Result     any       `json:"result,omitempty"`
	Error      *jobError `json:"error,omitempty"`
	// For a gateway that does not know the job yet, because a native client has published it.
	Job        json.RawMessage `json:"job,omitempty"`
	Headers    map[string]any  `json:"headers,omitempty"`
	Properties map[string]any  `json:"properties,omitempty"`
}

var errPermanent = errors.New("permanent")

func sendEmail(j job, attempt int32) (any, error) {
	var to string
	if len(j.Args) == 0 || json.Unmarshal(j.Args[0], &to) != nil {
		return nil, fmt.Errorf("%w: no address", errPermanent)
	}
	if strings.HasSuffix(to, "@flaky.example") && attempt == 1 {
		return nil, fmt.Errorf("%s: try again later", to)
	}
	return map[string]any{"delivered": to, "attempt": attempt}, nil
}

func run(j job, attempt int32) (any, error) {
	switch j.Type {
	case "email.send":
		return tellable(sendEmail(j, attempt))
	default:
		return nil, fmt.Errorf("%w: no handler for %s", errPermanent, j.Type)
	}
}

// outcome runs the handler. Whatever ends the handler's goroutine, a panic too, fails the job: a program that
// died of it would get the job again, and die again.
func outcome(j job, attempt int32) (result any, failure *jobError) {
	failure = &jobError{Code: "handler_error", Type: "exit", Message: "the handler has ended its goroutine"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if reason := recover(); reason != nil {
				failure = failed("panic", reason, true)
			}
		}()
		told, err := run(j, attempt)
		if err == nil {
			result, failure = told, nil
		} else {
			failure = failed("error", err, !errors.Is(err, errPermanent))
		}
	}()
	<-done
	return result, failure
}

// failed makes its text with fmt, which survives an Error method that panics.
func failed(kind string, reason any, retryable bool) *jobError {
	message := strings.ToValidUTF8(fmt.Sprint(reason), "?")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	if message == "" {
		message = "failed"
	}
	return &jobError{Code: "handler_error", Type: kind, Message: message, Retryable: retryable}
}

// tellable fails the job if its result has no JSON form, or one for which the gateway would drop the
// event. Otherwise the job would be redelivered for ever.
func tellable(result any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(result)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if len(text) > maxResult {
		err = errors.New("it is too large")
	}
	for depth := 0; err == nil; {
		var token json.Token
		token, err = decoder.Token()
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth > maxDepth {
			err = errors.New("it is too deep")
		}
		if number, isNumber := token.(json.Number); isNumber && !isExact(number.String()) {
			err = fmt.Errorf("%s is beyond 2^53", number)
		}
	}
	if err != io.EOF {
		return nil, fmt.Errorf("%w: the result cannot be reported: %v", errPermanent, err)
	}
	return result, nil
}

func isExact(number string) bool {
	if strings.ContainsAny(number, ".e") {
		return true
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && -1<<53 < n && n < 1<<53
}

// reporter publishes one message at a time, so that a return or a confirm always belongs to the
// current publish. (Debian's amqp091-go 1.5.0 registers a deferred confirmation only after the send:
// if the confirm comes before that, it waits for ever.)
type reporter struct {
	queue     string
	mutex     sync.Mutex
	channel   *amqp.Channel
	returned  chan amqp.Return
	confirmed chan amqp.Confirmation
	running   map[string]job // by id: begun, and its end is not reported yet
	started   chan struct{}  // wakes the heartbeats: the next one may be due earlier
	asking    sync.Mutex
	answers   <-chan amqp.Delivery
	silent    time.Time // send no claims before: no gateway has answered
}

func (r *reporter) report(e event) error {
	return r.tell("ojs.control.report", map[string]any{"events": []event{e}}, "")
}

// begin and end keep the list of running jobs in step with the reports: a heartbeat that names a job whose end
// has been published would count as its next start.
func (r *reporter) begin(j job, e event) error {
	err := r.report(e)
	r.mutex.Lock()
	r.running[j.ID] = j
	r.mutex.Unlock()
	select {
	case r.started <- struct{}{}:
	default:
	}
	return err
}

func (r *reporter) end(j job, e event) error {
	r.forget(j)
	return r.report(e)
}

func (r *reporter) forget(j job) {
	r.mutex.Lock()
	delete(r.running, j.ID)
	r.mutex.Unlock()
}

// beats sends heartbeats until the connection is lost.
func (r *reporter) beats(state func() string) {
	for {
		last := time.Now()
		// The ids are read while nothing else can be published.
		err := r.publish("ojs.control.heartbeat", "", func() map[string]any {
			ids := []string{}
			generations := map[string]int64{} // of the jobs that somebody has retried by hand
			for id, j := range r.running {
				ids = append(ids, id)
				if j.Generation > 0 {
					generations[id] = j.Generation
				}
			}
			return map[string]any{
				"job_ids": ids, "generations": generations, "state": state(), "queues": []string{r.queue},
				"hostname": hostname(), "pid": os.Getpid(), "concurrency": concurrency,
			}
		})
		if err != nil {
			return
		}
		for time.Since(last) < r.pause() {
			select {
			case <-time.After(r.pause() - time.Since(last)):
			case <-r.started:
			}
		}
	}
}

func (r *reporter) pause() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	pause := maxBeat
	for _, j := range r.running {
		if beat := j.beat(); beat < pause {
			pause = beat
		}
	}
	return pause
}

type decision struct {
	Decision string `json:"decision"`
	Attempt  int32  `json:"attempt"`
}

// claim asks what to do with a job. It may be over (also cancelled), its message may be void because an operator has
// given the job another priority or has retried it, and a redelivered one may run elsewhere, or have no attempts left:
// then its earlier attempts have killed their workers. If no gateway answers, the job runs.
func (r *reporter) claim(j job, attempt int32, redelivered bool) (decision, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	answer := decision{"run", attempt}
	if time.Now().Before(r.silent) {
		return answer, nil
	}
	question := strconv.FormatInt(time.Now().UnixNano(), 36)
	err := r.tell("ojs.control.claim", map[string]any{
		"job_id": j.ID, "generation": j.Generation, "attempt": attempt, "redelivered": redelivered,
	}, question)
	if err != nil {
		return answer, err
	}
	late := time.After(answerTime)
	for {
		select {
		case d, isOpen := <-r.answers:
			if !isOpen {
				return answer, errors.New("the connection was lost")
			}
			if d.CorrelationId != question {
				continue // a late answer to an earlier question
			}
			var got decision
			if json.Unmarshal(d.Body, &got) == nil && got.Decision != "" {
				return got, nil
			}
			return answer, nil // an error: of an id that no job of a gateway has, for example
		case <-late:
			r.silent = time.Now().Add(silence)
			return answer, nil
		}
	}
}

func (r *reporter) tell(kind string, body map[string]any, question string) error {
	return r.publish(kind, question, func() map[string]any { return body })
}

// publish returns nil when RabbitMQ has confirmed the message and has not returned it.
func (r *reporter) publish(kind, question string, content func() map[string]any) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	message := content()
	message["worker_id"] = workerID
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	replyTo := ""
	if question != "" {
		replyTo = "amq.rabbitmq.reply-to"
	}
	err = r.channel.PublishWithContext(
		context.Background(), exchange, "ojs.queue.control."+r.queue, true, false,
		amqp.Publishing{
			Type:          kind,
			ContentType:   "application/openjobspec+json",
			DeliveryMode:  amqp.Persistent,
			ReplyTo:       replyTo,
			CorrelationId: question,
			Body:          body,
		})
	if err != nil {
		return err
	}
	if confirm, isOpen := <-r.confirmed; !isOpen || !confirm.Ack {
		return errors.New("not confirmed")
	}
	select {
	case <-r.returned: // a return comes before its confirm
		return errors.New("no gateway has declared the control queue yet")
	default:
		return nil
	}
}

// attemptOf reads x-ojs-attempt: an int32, as seed 002 says and the gateway sends it. Other producers
// may send anything, and a message that crashes this program would be redelivered for ever.
func attemptOf(headers amqp.Table) int32 {
	header := headers["x-ojs-attempt"]
	attempt, isInt32 := header.(int32)
	if !isInt32 && header != nil {
		log.Printf("x-ojs-attempt is a %T", header)
	}
	if attempt < 1 {
		return 1
	}
	return attempt
}

// show adds what the gateway needs to publish the next attempt.
func (e *event) show(d amqp.Delivery) {
	e.Job = d.Body
	e.Headers = map[string]any{}
	for name, value := range d.Headers {
		switch value.(type) {
		case string, bool, int32: // values that JSON cannot carry would cost the whole event
			e.Headers[name] = value
		}
	}
	e.Properties = map[string]any{
		"priority": d.Priority, "correlation_id": d.CorrelationId,
		"reply_to": d.ReplyTo, "app_id": d.AppId,
	}
	if year := d.Timestamp.Year(); year >= 1970 && year < 10_000 {
		e.Properties["timestamp"] = d.Timestamp.Unix()
	}
}

// handle runs one delivery and settles it. An error means that RabbitMQ will redeliver it.
func handle(r *reporter, d amqp.Delivery) error {
	var j job
	if json.Unmarshal(d.Body, &j) != nil || j.ID == "" || j.Type == "" {
		return d.Nack(false, false)
	}
	attempt := attemptOf(d.Headers)
	// Only redelivered messages must be claimed by a worker that asks for the tombstones when it starts, and hears of
	// later ones. This one does neither.
	answer, err := r.claim(j, attempt, d.Redelivered)
	if err != nil {
		return err
	}
	switch answer.Decision {
	case "drop":
		return d.Ack(false)
	case "discard":
		return d.Nack(false, false)
	case "requeue": // not now; nobody tells this worker until when the queue is paused
		time.Sleep(time.Second)
		return d.Nack(false, true)
	}
	e := event{JobID: j.ID, Generation: j.Generation, Attempt: answer.Attempt, Event: "started"}
	// Confirmed before the handler runs: if the job kills this program, the attempt counts, and the claim of its
	// redelivery answers the next attempt until there are none left.
	if err := r.begin(j, e); err != nil {
		return err
	}
	result, failure := outcome(j, answer.Attempt)
	if failure != nil && len(d.Body) > maxShown {
		log.Printf("%s is too large to be shown: %s", j.ID, failure.Message)
		r.forget(j)
		return d.Nack(false, false) // to the dead letter queue: no report could carry the job
	}
	if failure != nil {
		e.Event, e.Error = "failed", failure
		e.show(d)
	} else {
		e.Event, e.Result = "completed", result
	}
	if err := r.end(j, e); err != nil {
		return err
	}
	return d.Ack(false)
}

// grace is how long running jobs may go on after SIGTERM.
func grace() time.Duration {
	seconds, err := strconv.ParseFloat(os.Getenv("GRACE_S"), 64)
	if err != nil {
		seconds = 25
	}
	return time.Duration(seconds * float64(time.Second))
}

func work(url, queue string) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	if err := channel.Qos(concurrency, 0, false); err != nil {
		return err
	}
	answers, err := channel.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	r := &reporter{
		queue:     queue,
		channel:   channel,
		running:   map[string]job{},
		started:   make(chan struct{}, 1),
		answers:   answers,
		returned:  channel.NotifyReturn(make(chan amqp.Return, 1)),
		confirmed: channel.NotifyPublish(make(chan amqp.Confirmation, 1)),
	}
	deliveries, err := channel.Consume("ojs.queue."+queue, workerID, false, false, false, false, nil)
	if err != nil {
		return err
	}

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	stopping := make(chan struct{})
	go func() {
		<-stop
		signal.Stop(stop) // a second one ends the program at once
		close(stopping)
		time.AfterFunc(grace(), func() {
			log.Print("jobs still run; the next worker runs them again, as the next attempt")
			os.Exit(0)
		})
		_ = channel.Cancel(workerID, false) // closes `deliveries`; running jobs are finished below
	}()

	go r.beats(func() string {
		select {
		case <-stopping:
			return "terminate"
		default:
			return "running"
		}
	})

	var group sync.WaitGroup
	failed := make(chan error, concurrency)
	for i := 0; i < concurrency; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for d := range deliveries {
				if err := handle(r, d); err != nil {
					failed <- err
					connection.Close() // RabbitMQ redelivers unsettled messages to the next consumer
					return
				}
			}
		}()
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	select {
	case <-stopping:
		return nil
	default:
		return errors.New("the connection was lost")
	}
}

func main() {
	queue := os.Getenv("OJS_QUEUE")
	if queue == "" {
		queue = "email"
	}
	// A supervisor is expected to restart this program.
	if err := work(os.Getenv("AMQP_URL"), queue); err != nil {
		log.Fatal(err)
	}
}
