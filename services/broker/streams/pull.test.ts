import { defaultRoute } from '../routes/route.ts'
import { type Scenario, testScenarios } from './testing/scenario-under-test.ts'

/** Limits with a buffer for about three messages, each of which counts for some 300 bytes. */
const smallBuffer = { ...defaultRoute.limits, bufferBytes: 1000 }

const matching: readonly Scenario[] = [
  {
    rule: 'a pull waits for its push, and gets all its messages',
    story: `
      pull p: stream=s
      push r1: header 1 2
      p got header r1, 1, 2
      push r1: SUCCESS
      p got SUCCESS
      r1 runs
      push r1: end
      r1 answered SUCCESS 4 messages
      p runs`,
  },
  {
    rule: 'a pull with a request id ends after the request; others wait for the next one',
    story: `
      pull named: request=r1
      pull open: stream=s
      push r1: header 1 SUCCESS end
      named got header r1, 1, SUCCESS
      named ended OK
      open got header r1, 1, SUCCESS
      push r2: header 2 SUCCESS end
      open got header r2, 2, SUCCESS`,
  },
  {
    rule: 'three empty ids are rejected in a pull and in a push',
    story: `
      pull p:
      p ended INVALID_ARGUMENT all three are empty
      push r1: no-ids
      r1 answered INVALID_ARGUMENT all three are empty`,
  },
  {
    rule: 'the second of two producers with the same ids is rejected',
    story: `
      push r1/a: header 1
      push r1/b: header 2
      r1/b answered ALREADY_EXISTS
      r1/a runs
      push r1/a: SUCCESS end
      push r1/c: header 3
      r1/c runs`,
  },
  {
    rule: 'a pull without a matching request ends after a timeout',
    limits: { pullIdleMs: 60_000 },
    story: `
      pull p: stream=s
      push r1: header SUCCESS end
      59s pass
      p runs
      2s pass
      p ended DEADLINE_EXCEEDED no request matched for 60 s`,
  },
]

const lateJoiners: readonly Scenario[] = [
  {
    rule: 'late joiners from now on get a status',
    story: `
      push r1: header 1 2
      pull p: stream=s
      p got header r1, INFO joined late, the next is message 3
      push r1: 3 SUCCESS end
      p got 3, SUCCESS`,
  },
  {
    rule: 'late joiners from the start get all kept messages',
    route: { lateJoiners: { from: 'start' } },
    story: `
      push r1: header 1 2
      pull p: stream=s
      p got header r1, 1, 2`,
  },
  {
    rule: 'late joiners from the last seconds get the messages of that time',
    route: { lateJoiners: { from: 'last', seconds: 5 } },
    story: `
      push r1: header 1
      4s pass
      push r1: 2
      4s pass
      push r1: 3
      pull p: stream=s
      p got header r1, INFO joined late, the next is message 2, 2, 3`,
  },
  {
    rule: 'only a resuming pull gets an ended request; others wait for the next push of its ids',
    story: `
      push r1: header 1 SUCCESS end
      pull open: stream=s
      pull named: request=r1
      pull resumed: request=r1 received=1=1
      open got nothing
      named got nothing
      resumed got header r1, INFO run 1, the next is message 1, 1, SUCCESS
      resumed ended OK
      push r1/again: header 2 SUCCESS end
      named got header r1, 2, SUCCESS
      named ended OK
      open got header r1, 2, SUCCESS
      open runs`,
  },
  {
    rule: 'a consumer that joins between the last status and the end gets that status',
    story: `
      push r1: header 1 SUCCESS
      pull p: request=r1
      push r1: end
      p got header r1, INFO joined late, the next is message 3, SUCCESS
      p ended OK`,
  },
  {
    rule: 'late joiners from the start also get an ended request while it is kept',
    route: { lateJoiners: { from: 'start' } },
    story: `
      push r1: header 1 SUCCESS end
      pull p: stream=s
      p got header r1, 1, SUCCESS
      31s pass
      pull q: stream=s
      q got nothing`,
  },
  {
    rule: 'a consumer resumes at its position',
    story: `
      push r1: header 1 2 3 4
      pull p: stream=s received=1=3
      p got header r1, INFO run 1, the next is message 3, 3, 4
      push r1: SUCCESS end
      p got SUCCESS
      pull q: stream=s received=1=6
      q got header r1, INFO run 1, the next is message 6, SUCCESS`,
  },
  {
    rule: 'consumers that can resume get the names of runs',
    story: `
      push r1: header 1
      pull p: stream=s received=none
      push r1: 2 SUCCESS end
      push r2: header 1
      p got header r1, INFO run 1, the next is message 2, \
INFO joined late, the next is message 2, 2, SUCCESS, \
header r2, INFO run 2, the next is message 1, 1`,
  },
  {
    rule: 'another push of the same ids is another run, which is read from its beginning',
    story: `
      push r1: header 1 2
      push r1: cancel
      31s pass
      pull q: request=r1 received=1=3
      push r1/again: header 1 2 3
      1s pass
      q got header r1, INFO run 2, the next is message 1, 1, 2, 3
      push r1/again: 4
      q got WARNING the run "1" is not kept any more, the next is message 4, 4`,
  },
  {
    rule: 'a consumer that resumes a forgotten run gets an error',
    story: `
      pull p: request=r1 received=7=3
      p runs
      1s pass
      p ended NOT_FOUND the run "7" is not kept any more`,
  },
  {
    rule: 'a consumer that is ahead of the log gets no message twice',
    story: `
      push r1: header 1 2
      pull p: stream=s received=1=5
      p got header r1, INFO run 1, the next is message 5
      push r1: 3 4 5 6
      p got 5, 6`,
  },
  {
    rule: 'a consumer that resumes gets a status for trimmed messages',
    route: { limits: smallBuffer, slowConsumers: 'drop-oldest' },
    story: `
      push r1: header 1 2 3 4 5 6
      pull p: stream=s received=1=2
      p got header r1, INFO run 1, the next is message 4, \
WARNING 2 messages are not kept any more, the next is message 4, 4, 5, 6`,
  },
  {
    rule: 'invalid metadata is rejected',
    story: `
      pull p: stream=s received=r1
      p ended INVALID_ARGUMENT tollway-received: "r1" is neither <run>=<count> nor none`,
  },
]

const concurrent: readonly Scenario[] = [
  {
    rule: 'requests are queued, and not interleaved',
    story: `
      pull p: stream=s
      push r1: header 1
      push r2: header 10
      push r1: 2
      push r2: 11
      p got header r1, 1, 2
      push r3: header 20
      push r1: SUCCESS end
      p got SUCCESS, header r2, 10, 11
      push r2: SUCCESS end
      p got SUCCESS, header r3, 20`,
  },
  {
    rule: 'a full queue drops the oldest request, with a status that names the next message',
    limits: { maxWaitingRequests: 1 },
    story: `
      pull p: stream=s
      push r1: header 1
      push r2: header 2
      push r3: header 3
      p got header r1, 1
      push r1: 2 SUCCESS end
      p got WARNING dropped: the request "r2", which waited for its turn, the next is message 2, \
2, SUCCESS, header r3, 3`,
  },
  {
    rule: 'a consumer that counts messages resumes at its position after requests were dropped',
    route: { lateJoiners: { from: 'start' } },
    limits: { maxWaitingRequests: 1 },
    story: `
      pull p: stream=s
      push r1: header 1
      push r2: header
      push r3: header
      push r4: header
      push r1: 2
      p got header r1, 1, \
WARNING dropped: the request "r2", which waited for its turn, the next is message 2, \
WARNING dropped: the request "r3", which waited for its turn, the next is message 2, 2
      p cancels
      push r1: 3
      pull q: request=r1 received=1=3
      q got header r1, INFO run 1, the next is message 3, 3`,
  },
  {
    rule: 'the newest request supersedes another one',
    route: { concurrentRequests: 'newest' },
    story: `
      pull p: stream=s
      push r1: header 1
      push r2: header 10
      p got header r1, 1, WARNING superseded by the request "r2", header r2, 10
      push r1: 2 SUCCESS end
      r1 answered SUCCESS
      push r2: SUCCESS end
      p got SUCCESS`,
  },
  {
    rule: 'the newest request supersedes another one also while the consumer is stalled',
    route: { concurrentRequests: 'newest' },
    story: `
      pull p: stream=s
      push r1: header 1
      p stalls
      push r1: 2 3 4
      push r2: header 20
      push r3: header 30
      p goes on
      p got header r1, 1, 2, 3, WARNING superseded by the request "r3", header r3, 30`,
  },
  {
    rule: 'a stream has one request at a time, and rejects others',
    route: { concurrentRequests: 'refuse' },
    story: `
      push r1: header 1
      push r2: header 2
      r2 answered RESOURCE_EXHAUSTED the request "r1" of this stream and object is running
      push r1: SUCCESS end
      push r3: header
      r3 runs`,
  },
]

const waitingTurns: readonly Scenario[] = [
  {
    rule: 'a queued request does not block its producer, and its gap is reported',
    route: { limits: smallBuffer, slowConsumers: 'wait' },
    story: `
      push r1: header 1
      pull recorder: stream=s
      recorder got header r1, INFO joined late, the next is message 2
      pull p: request=r2
      push r2: header 1 2 3 4 5 6 7 8 9
      p got header r2, 1, 2, 3, 4, 5, 6, 7, 8, 9
      push r1: SUCCESS end
      recorder got SUCCESS, header r2, WARNING 6 messages were dropped, the next is message 7, 7, 8, 9
      recorder stalls
      push r2: 10 11 12 13 14 15 16 17 SUCCESS end
      r2 waits
      recorder goes on
      recorder got 10, 11, 12, 13, 14, 15, 16, 17, SUCCESS
      r2 answered SUCCESS`,
  },
  {
    rule: 'a queued request that ended long ago has its header, a gap and its last status',
    route: { limits: smallBuffer },
    story: `
      push r1: header 1
      pull p: stream=s
      push r2: header 1 2 SUCCESS end
      push r3: header 1 2
      push r3: cancel
      20s pass
      push r1: 2
      20s pass
      push r1: SUCCESS end
      p got header r1, INFO joined late, the next is message 2, 2, SUCCESS, \
header r2, WARNING 2 messages were dropped, the next is message 3, SUCCESS, \
header r3, WARNING 1 message was dropped, the next is message 2, 2, \
ERROR the producer is gone: the caller is gone`,
  },
  {
    rule: 'the next request begins when the consumer has read the last one to its end',
    route: { limits: smallBuffer, slowConsumers: 'wait' },
    story: `
      pull p: stream=s
      push r1: header 1 2
      p stalls
      push r1: SUCCESS end
      push r2: header 1 2 3 4 5 6 7 8
      p goes on
      p got header r1, 1, 2, SUCCESS, header r2, 1, 2, 3, 4, 5, 6, 7, 8`,
  },
]

for (const scenarios of [matching, lateJoiners, concurrent, waitingTurns]) testScenarios(scenarios)
