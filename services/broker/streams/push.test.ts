import { createHash } from 'node:crypto'
import { defaultRoute } from '../routes/route.ts'
import { type Scenario, testScenarios } from './testing/scenario-under-test.ts'

const producers: readonly Scenario[] = [
  {
    rule: 'consumers get an error if the producer disconnects',
    story: `
      pull p: request=r1
      push r1: header 1
      push r1: cancel
      p got header r1, 1, ERROR the producer is gone: the caller is gone
      p ended OK`,
  },
  {
    rule: 'an end without a status is an error for producer and consumers',
    story: `
      pull p: request=r1
      push r1: header 1 end
      r1 answered ERROR without a status
      p got header r1, 1, ERROR the producer ended without a status after 2 messages`,
  },
  {
    rule: 'a first message without a header ends the push',
    story: `
      push r1: 1
      r1 answered ERROR order #0
      push r2: end
      r2 answered ERROR order #0`,
  },
  {
    rule: 'invalid bytes are rejected, and end the request',
    story: `
      push r1: junk
      r1 answered INVALID_ARGUMENT message #0
      pull p: request=r2
      push r2: header 1 junk
      r2 answered INVALID_ARGUMENT message #2
      p ended OK`,
  },
  {
    rule: 'a message that is too long for its route is rejected',
    route: { limits: { ...defaultRoute.limits, messageBytes: 100 } },
    story: `
      pull p: request=r1
      push r1: header big:101
      r1 answered RESOURCE_EXHAUSTED message #1 has 101 bytes, at most 100
      p got header r1, ERROR message #1 has 101 bytes, at most 100 are allowed`,
  },
  {
    rule: 'the number of concurrent requests of a route is limited',
    route: { limits: { ...defaultRoute.limits, streams: 1 } },
    story: `
      push r1: header
      push r2: header
      r2 answered RESOURCE_EXHAUSTED the default route has 1
      push r1: SUCCESS end
      push r3: header
      r3 runs`,
  },
  {
    rule: 'an idle producer times out, and so does an endless one',
    route: { limits: { ...defaultRoute.limits, idleSeconds: 5, totalSeconds: 12 } },
    story: `
      pull p: request=r1
      push r1: header 1
      5s pass
      r1 runs
      1s pass
      r1 answered ERROR the producer sent nothing for 5 s
      p got header r1, 1, ERROR the producer sent nothing for 5 s
      push r2: header
      4s pass
      push r2: 1
      4s pass
      push r2: 2
      4s pass
      push r2: 3
      1s pass
      r2 answered ERROR the request ran for 12 s`,
  },
  {
    rule: 'a push without a header times out',
    limits: { headerWaitMs: 3000 },
    story: `
      push r1: 
      4s pass
      r1 answered ERROR sent nothing for 3 s`,
  },
  {
    rule: 'consumers get the first violation of a rule in mode warn, and the producer the sum',
    story: `
      pull p: request=r1
      push r1: header 1
      p got header r1, 1
      push r1: header header 2 SUCCESS end
      p got WARNING order #2: a second header is found, one is allowed, header r1, header r1, 2, SUCCESS
      r1 answered SUCCESS 6 messages; warnings: order ×2`,
  },
  {
    rule: 'a violation in mode reject ends the request for producer and consumers',
    route: { rules: { ...defaultRoute.rules, order: 'reject' } },
    story: `
      pull p: request=r1
      push r1: header 1 header 2
      p got header r1, 1, ERROR order #2: a second header is found, one is allowed
      r1 answered ERROR order #2
      push r2: header SUCCESS end
      r2 answered ERROR order #2: the request ended without data`,
  },
]

const ends: readonly Scenario[] = [
  {
    rule: 'an interrupted request ends for producer and consumers, and is rejected for a minute',
    story: `
      pull p: request=r1
      push r1: header 1
      interrupt s r1
      p got header r1, 1, INFO interrupted
      p ended OK
      r1 answered INFO interrupted
      push r1/b: header
      r1/b answered FAILED_PRECONDITION interrupted
      61s pass
      push r1/c: header
      r1/c runs`,
  },
  {
    rule: 'a draining broker rejects calls, and lets requests end',
    story: `
      pull idle: stream=other
      pull open: stream=s
      push r1: header 1
      drain
      idle ended UNAVAILABLE shutting down
      pull late: stream=s
      late ended UNAVAILABLE
      push r2: header
      r2 answered UNAVAILABLE
      push r1: 2 SUCCESS end
      r1 answered SUCCESS
      open got header r1, 1, 2, SUCCESS
      open ended UNAVAILABLE shutting down`,
  },
  {
    rule: 'requests that run at the end of the drain end with an error',
    story: `
      pull p: request=r1
      push r1: header 1
      drain
      close
      p got header r1, 1, ERROR shutting down
      p ended OK
      r1 answered ERROR shutting down`,
  },
]

const hashTokens = (...tokens: readonly string[]) =>
  tokens.map(token => createHash('sha256').update(token).digest())
const secret = { name: 'shop/secret', tokens: { push: hashTokens('open'), pull: hashTokens('open') } }
const twoRights = { name: 'shop/two', tokens: { push: hashTokens('in'), pull: hashTokens('out') } }
const pushOnly = { name: 'shop/stage', tokens: { push: hashTokens('in'), pull: [] } }

const tokens: readonly Scenario[] = [
  {
    rule: 'a push needs the token of its route',
    route: secret,
    story: `
      push r1: header
      r1 answered UNAUTHENTICATED the route shop/secret
      push r2: token=wrong header
      r2 answered PERMISSION_DENIED the route shop/secret
      push r3: token=open header
      r3 runs`,
  },
  {
    rule: 'a token to push is rejected for pulls, and a token to pull for pushes',
    route: twoRights,
    story: `
      pull p: stream=s token=out
      pull q: stream=s token=in
      push r1: token=out header
      r1 answered PERMISSION_DENIED the route shop/two does not accept this token
      push r2: token=in header 1
      p got header r2, 1
      q got nothing`,
  },
  {
    rule: 'a right without tokens is open to all',
    route: pushOnly,
    story: `
      pull p: stream=s
      push r1: header
      r1 answered UNAUTHENTICATED the route shop/stage
      push r2: token=in header 1
      p got header r2, 1`,
  },
  {
    rule: 'a pull sees only requests that accept its token',
    route: secret,
    story: `
      pull without: stream=s
      pull wrong: stream=s token=wrong
      pull right: stream=s token=open
      push r1: token=open header 1
      without got nothing
      wrong got nothing
      right got header r1, 1`,
  },
  {
    route: { name: 'shop/secret' },
    rule: 'a changed route ends the calls that it no longer accepts',
    story: `
      pull p: stream=s token=open
      pull q: stream=s token=old
      push r1: token=open header 1
      route needs open
      q got header r1, 1
      q ended PERMISSION_DENIED
      p runs
      r1 runs
      route needs new
      r1 answered PERMISSION_DENIED
      p got header r1, 1
      p ended PERMISSION_DENIED`,
  },
]

const resumes: readonly Scenario[] = [
  {
    rule: 'a producer with a lost connection continues after the last accepted message',
    story: `
      pull p: request=r1
      push r1: header 1 2
      r1 begins at 1
      push r1: lose
      r1 answered UNAVAILABLE the connection is lost
      p got header r1, 1, 2
      4s pass
      p runs
      push r1/b: resume=r1
      r1/b begins at 3
      20s pass
      push r1/b: 3 SUCCESS end
      r1/b answered SUCCESS 5 messages
      p got 3, SUCCESS`,
  },
  {
    rule: 'consumers get an error if the producer does not return in time',
    story: `
      pull p: request=r1
      push r1: header 1
      push r1: lose
      6s pass
      p got header r1, 1, ERROR the producer is gone: the connection is lost, and it did not come back for 5 s
      p ended OK
      push r1/c: resume=r1
      r1/c answered FAILED_PRECONDITION the request has ended: the producer is gone
      push r1/d: header
      r1/d runs`,
  },
  {
    rule: 'the rules of a continued request keep their state',
    story: `
      pull p: request=r1
      push r1: header 1 header 2
      push r1: lose
      push r1/b: resume=r1
      r1/b begins at 4
      push r1/b: header 3 SUCCESS end
      r1/b answered SUCCESS 7 messages; warnings: order ×2
      p got header r1, 1, WARNING order #2: a second header is found, one is allowed, header r1, 2, \
header r1, 3, SUCCESS`,
  },
  {
    rule: 'a request that waits for its producer counts for its route, once',
    route: { limits: { ...defaultRoute.limits, streams: 1 } },
    story: `
      push r1: header
      push r1: lose
      push r2: header
      r2 answered RESOURCE_EXHAUSTED the default route has 1
      push r1/b: resume=r1
      push r1/b: 1 SUCCESS end
      r1/b answered SUCCESS 3 messages
      push r3: header
      r3 runs
      push r4: header
      r4 answered RESOURCE_EXHAUSTED the default route has 1`,
  },
  {
    rule: 'a resume token does not replace the bearer token of the route',
    route: secret,
    story: `
      push r1: token=open header 1
      push r1: lose
      push r1/b: resume=r1
      r1/b answered PERMISSION_DENIED the resume token is not one of this request and this bearer token
      push r1/c: token=open resume=r1
      r1/c begins at 2
      push r1/c: lose
      route needs another
      push r1/d: token=open resume=r1/c
      r1/d answered PERMISSION_DENIED the route shop/secret does not accept this token`,
  },
  {
    rule: 'a message before the response is rejected, and the request continues to wait',
    story: `
      pull p: request=r1
      push r1: header 1
      push r1: lose
      push r1/b: resume=r1 2
      r1/b answered FAILED_PRECONDITION a message came before the answer's tollway-next
      push r1/c: resume=r1
      r1/c begins at 2
      push r1/c: 2 SUCCESS end
      p got header r1, 1, 2, SUCCESS`,
  },
  {
    rule: 'a lost producer that begins again without a token ends its request at once',
    story: `
      pull p: request=r1
      pull q: stream=s
      push r1: header 1
      push r1/b: header
      r1/b answered ALREADY_EXISTS a push with the same ids is running
      r1 runs
      push r1: lose
      pull late: request=r1
      late got header r1, INFO joined late, the next is message 2
      push r1/c: header 2
      p got header r1, 1, ERROR the producer is gone: it came back without a resume token
      p ended OK
      late got ERROR the producer is gone: it came back without a resume token
      late ended OK
      q got header r1, 1, ERROR the producer is gone: it came back without a resume token, header r1, 2
      push r1/d: resume=r1
      r1/d answered FAILED_PRECONDITION the request has ended: the producer is gone
      push r1/e: header
      r1/e answered ALREADY_EXISTS
      push r1/c: SUCCESS end
      r1/c answered SUCCESS 3 messages
      q got SUCCESS`,
  },
  {
    rule: 'a producer that has continued with its token is connected',
    story: `
      push r1: header 1
      push r1: lose
      push r1/b: resume=r1
      r1/b begins at 2
      push r1/c: header
      r1/c answered ALREADY_EXISTS
      push r1/b: lose
      push r1/d: header
      r1/d runs`,
  },
  {
    rule: 'a lost request ends only for a push with the same bearer token',
    route: { name: 'shop/two', tokens: { push: hashTokens('one', 'two'), pull: [] } },
    story: `
      pull p: request=r1
      push r1: token=one header 1
      push r1: lose
      push r1/b: token=two header
      r1/b answered ALREADY_EXISTS
      push r1/c: header
      r1/c answered UNAUTHENTICATED
      p got header r1, 1
      push r1/d: token=one header
      r1/d runs
      p got ERROR the producer is gone: it came back without a resume token`,
  },
  {
    rule: 'a route without tokens does not compare those of its producers',
    story: `
      push r1: token=one header
      push r1: lose
      push r1/b: token=another header
      r1/b runs`,
  },
  {
    rule: 'a lost request no longer counts for its route when a push ends it',
    route: { limits: { ...defaultRoute.limits, streams: 1 } },
    story: `
      push r1: header
      push r1: lose
      push r2: header
      r2 answered RESOURCE_EXHAUSTED the default route has 1
      push r1/b: header
      r1/b runs
      push r1/c: header
      r1/c answered RESOURCE_EXHAUSTED the default route has 1
      push r1/b: SUCCESS end
      push r3: header
      r3 runs`,
  },
  {
    rule: 'a route with one request at a time ends a lost request for the next one of its producer',
    route: { concurrentRequests: 'refuse' },
    story: `
      pull p: stream=s
      push r1: header 1
      push r2: header
      r2 answered RESOURCE_EXHAUSTED
      push r1: lose
      push r3: header
      p got header r1, 1, ERROR the producer is gone: it came back without a resume token, header r3`,
  },
  {
    rule: 'a lost request ends with an error also for a consumer that only wants the newest one',
    route: { concurrentRequests: 'newest' },
    story: `
      pull p: stream=s
      p stalls
      push r1: header 1 2 3
      push r1: lose
      push r1/b: header
      p goes on
      p got header r1, 1, ERROR the producer is gone: it came back without a resume token, header r1`,
  },
  {
    rule: 'a broker without RESUME_GRACE gives no token, and ends the request of a lost producer at once',
    limits: { resumeGraceMs: 0 },
    story: `
      pull p: request=r1
      push r1: header 1
      push r1: lose
      p got header r1, 1, ERROR the producer is gone: the connection is lost
      push r1/b: header
      r1/b runs`,
  },
]

for (const scenarios of [producers, ends, tokens, resumes]) testScenarios(scenarios)
