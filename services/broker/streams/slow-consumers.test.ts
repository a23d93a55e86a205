import { defaultRoute } from '../routes/route.ts'
import { testScenarios } from './testing/scenario-under-test.ts'

/** Limits with a buffer for about three messages, each of which counts for some 300 bytes. */
const smallBuffer = { ...defaultRoute.limits, bufferBytes: 1000 }

testScenarios([
  {
    rule: 'with drop-oldest, a consumer that does not read an ended request is cut off',
    route: { slowConsumers: 'drop-oldest' },
    story: `
      pull p: stream=s
      p stalls
      push r1: header 1 2 3 4
      20s pass
      push r1: 5
      20s pass
      push r1: 6
      20s pass
      p runs
      push r1: SUCCESS end
      1s pass
      p ended RESOURCE_EXHAUSTED too slow: nothing was taken for 30 s, and the request has ended`,
  },
  {
    rule: 'with cut-off, a consumer that does not read an ended request is cut off',
    route: { slowConsumers: 'cut-off' },
    story: `
      pull p: stream=s
      p stalls
      push r1: header 1 2 3 4 SUCCESS end
      1s pass
      31s pass
      p ended RESOURCE_EXHAUSTED too slow: nothing was taken for 30 s, and the request has ended`,
  },
  {
    rule: 'with wait, the producer waits, and nothing is lost',
    route: { limits: smallBuffer, slowConsumers: 'wait' },
    story: `
      pull p: stream=s
      p stalls
      push r1: header 1 2 3 4 5 6 7 8 SUCCESS end
      r1 waits
      p goes on
      p got header r1, 1, 2, 3, 4, 5, 6, 7, 8, SUCCESS
      r1 answered SUCCESS`,
  },
  {
    rule: 'with wait, a consumer that never reads is cut off',
    route: { limits: smallBuffer, slowConsumers: 'wait' },
    story: `
      pull p: stream=s
      pull q: stream=s
      p stalls
      push r1: header 1 2 3 4 5 6 7 8 SUCCESS end
      1s pass
      29s pass
      r1 waits
      2s pass
      p ended RESOURCE_EXHAUSTED nothing was taken for 30 s
      q got header r1, 1, 2, 3, 4, 5, 6, 7, 8, SUCCESS
      r1 answered SUCCESS`,
  },
  {
    rule: 'the last messages of a pull reach a consumer that reads late',
    story: `
      pull p: request=r1
      push r1: header 1
      p got header r1, 1
      p stalls
      push r1: SUCCESS end
      29s pass
      p runs
      p goes on
      p got SUCCESS
      p ended OK`,
  },
  {
    rule: 'a consumer that never reads the last messages of its pull is cut off',
    story: `
      pull p: request=r1
      push r1: header 1
      p got header r1, 1
      p stalls
      push r1: SUCCESS end
      1s pass
      31s pass
      p ended RESOURCE_EXHAUSTED nothing was taken for 30 s, and the request has ended`,
  },
  {
    rule: 'the end of the broker does not discard the last messages of a pull',
    story: `
      pull p: request=r1
      push r1: header 1
      p got header r1, 1
      p stalls
      push r1: SUCCESS end
      drain
      close
      p goes on
      p got SUCCESS
      p ended OK`,
  },
  {
    rule: 'with drop-oldest, the gap is reported, and other consumers are not affected',
    route: { limits: smallBuffer, slowConsumers: 'drop-oldest' },
    story: `
      pull p: stream=s
      pull q: stream=s
      p stalls
      push r1: header 1 2 3 4 5 6 7 8 SUCCESS end
      q got header r1, 1, 2, 3, 4, 5, 6, 7, 8, SUCCESS
      r1 answered SUCCESS
      p goes on
      p got header r1, 1, WARNING 5 messages were dropped, the next is message 7, 7, 8, SUCCESS`,
  },
  {
    rule: 'with cut-off, a slow consumer gets the error at once',
    route: { limits: smallBuffer, slowConsumers: 'cut-off' },
    story: `
      pull p: stream=s
      pull q: stream=s
      p stalls
      push r1: header 1 2 3 4 5 6 7 8
      q got header r1, 1, 2, 3, 4, 5, 6, 7, 8
      1s pass
      p ended RESOURCE_EXHAUSTED too slow: 4 messages behind what is kept
      q runs`,
  },
  {
    rule: 'the number of consumers of a request is limited',
    route: { limits: { ...defaultRoute.limits, consumers: 1 } },
    story: `
      pull p: stream=s
      pull q: stream=s
      push r1: header
      q ended RESOURCE_EXHAUSTED the request "r1" has 1 consumer, which is all that its route allows
      p cancels
      pull r: stream=s
      r got header r1`,
  },
  {
    rule: 'a queued delivery does not count as a consumer of its request',
    route: { limits: { ...defaultRoute.limits, consumers: 1 } },
    story: `
      push r1: header 1
      pull all: stream=s
      push r2: header 1
      pull other: request=r2
      other got header r2, INFO joined late, the next is message 2
      push r1: SUCCESS end
      all got header r1, INFO joined late, the next is message 2, SUCCESS
      push r2: SUCCESS end
      other got SUCCESS
      push r3: header
      all got header r3
      push r3: 1
      all got WARNING left out: \
the request "r2" has 1 consumer, which is all that its route allows, the next is message 1, 1
      all runs`,
  },
  {
    rule: 'a pull that serves a request skips another one with too many consumers',
    route: { limits: { ...defaultRoute.limits, consumers: 1 } },
    story: `
      push r1: header 1
      pull p: request=r2
      pull q: stream=s
      push r2: header 10
      push r1: 2 SUCCESS end
      p got header r2, 10
      q got header r1, INFO joined late, the next is message 2, WARNING left out: \
the request "r2" has 1 consumer, which is all that its route allows, the next is message 2, 2, SUCCESS
      q runs`,
  },
  {
    rule: 'a consumer that counts messages resumes at its position after a request was skipped',
    route: { limits: { ...defaultRoute.limits, consumers: 1 } },
    story: `
      pull p: request=r2
      pull q: stream=s
      push r1: header 1
      push r2: header 10
      push r1: 2
      q got header r1, 1, WARNING left out: \
the request "r2" has 1 consumer, which is all that its route allows, the next is message 2, 2
      q cancels
      push r1: 3
      pull r: request=r1 received=1=3
      r got header r1, INFO run 1, the next is message 3, 3`,
  },
  {
    rule: 'with wait, a superseded delivery does not block its producer',
    route: { limits: smallBuffer, slowConsumers: 'wait', concurrentRequests: 'newest' },
    story: `
      pull p: stream=s
      push r1: header
      p stalls
      push r1: 1 2 3 4 5 6 7 8 SUCCESS end
      r1 waits
      push r2: header 10
      r1 answered SUCCESS
      p goes on
      p got header r1, 1, 2, WARNING superseded by the request "r2", header r2, 10`,
  },
])
