import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Acknowledgements } from './acknowledgements.ts'
import { createResource, createSnapshot, type Snapshot } from './snapshot.ts'
import { createStreamState, offer, receive, renew, streamLimits } from './stream.ts'

/**
 * Each case lists the events of one stream, line by line, and the responses. A snapshot is `a=1 b=2`:
 * resources and their contents. `ack` and `nack` answer the last response unless a nonce is given; `N-1` is
 * the nonce of the first.
 */
const cases: Readonly<Record<string, string>> = {
  'no response is sent before the sources have synced': `
    request                → nothing
    publish a=1            → send N-1 a=1`,
  'an empty snapshot that was published is sent': `
    publish                → nothing
    request                → send N-1`,
  'a snapshot is not sent without a request': `
    publish a=1            → nothing
    publish a=2            → nothing
    request                → send N-1 a=2`,
  'the first request gets a response, whatever version it names': `
    publish a=1            → nothing
    request version=a=1 nonce=other-7 → send N-1 a=1`,
  'the first request acknowledges nothing, even with the nonce of a later response': `
    publish a=1            → nothing
    request version=a=1 nonce=N-1 → send N-1 a=1
    ack                    → acknowledged a=1`,
  'an error in the first request is ignored': `
    publish a=1            → nothing
    request nonce=N-1 error=bad → send N-1 a=1`,
  'a change is sent after the ACK, and an unchanged snapshot is not': `
    publish a=1            → nothing
    request                → send N-1 a=1
    ack                    → acknowledged a=1
    publish a=1            → nothing
    publish a=2            → send N-2 a=2
    ack                    → acknowledged a=2`,
  'a slow client gets only the newest snapshot': `
    publish a=1            → nothing
    request                → send N-1 a=1
    publish a=2            → nothing
    publish a=3            → nothing
    ack                    → acknowledged a=1, send N-2 a=3`,
  'a change that is undone before it is sent is not sent': `
    publish a=1            → nothing
    request                → send N-1 a=1
    publish a=2            → nothing
    publish a=1            → nothing
    ack                    → acknowledged a=1`,
  'requests with other nonces are ignored': `
    publish a=1            → nothing
    request                → send N-1 a=1
    ack nonce=             → ignored
    ack nonce=N-2          → ignored
    ack nonce=other-1      → ignored
    nack nonce=other-1 a: bad → ignored
    ack                    → acknowledged a=1
    ack                    → ignored
    nack a: bad            → ignored
    publish a=2            → send N-2 a=2
    ack nonce=N-1          → ignored
    ack                    → acknowledged a=2`,
  'the right nonce with another version is a rejection': `
    publish a=1            → nothing
    request                → send N-1 a=1
    ack version=a=7        → rejected
    publish a=2            → send N-2 a=2`,
  'a rejection without names withholds everything until the snapshot changes': `
    publish a=1 b=1        → nothing
    request                → send N-1 a=1 b=1
    ack                    → acknowledged a=1 b=1
    publish a=2 b=2        → send N-2 a=2 b=2
    nack something is wrong → rejected
    publish a=1 b=1        → nothing
    publish a=2 b=2        → nothing
    publish a=2 b=3        → send N-3 a=2 b=3`,
  'a rejected resource keeps its acknowledged version, and the others change': `
    publish a=1 b=1        → nothing
    request                → send N-1 a=1 b=1
    ack                    → acknowledged a=1 b=1
    publish a=2 b=2        → send N-2 a=2 b=2
    nack a: bad            → rejected a, send N-3 a=1 b=2
    ack                    → acknowledged a=1 b=2
    publish a=2 b=3        → send N-4 a=1 b=3
    ack                    → acknowledged a=1 b=3
    publish a=3 b=3        → send N-5 a=3 b=3`,
  'a rejected resource without an acknowledged version is left out': `
    publish a=2 b=2        → nothing
    request                → send N-1 a=2 b=2
    nack a: bad            → rejected a, send N-2 b=2
    ack                    → acknowledged b=2`,
  'several resources are rejected at once': `
    publish a=2 b=2 c=2    → nothing
    request                → send N-1 a=2 b=2 c=2
    nack a: bad⏎c: bad too → rejected a c, send N-2 b=2`,
  'a change of only the rejected resource sends nothing': `
    publish a=1 b=1        → nothing
    request                → send N-1 a=1 b=1
    ack                    → acknowledged a=1 b=1
    publish a=2 b=1        → send N-2 a=2 b=1
    nack a: bad            → rejected a
    publish a=1 b=1        → nothing`,
  'a resource whose replacement is rejected too is left out': `
    publish a=1 b=1        → nothing
    request                → send N-1 a=1 b=1
    ack                    → acknowledged a=1 b=1
    publish a=2 b=2        → send N-2 a=2 b=2
    nack a: bad            → rejected a, send N-3 a=1 b=2
    nack a: bad as well    → rejected a, send N-4 b=2`,
  'a rejected resource is replaced with the good content of another client': `
    other acknowledged a=1 → nothing
    publish a=2 b=2        → nothing
    request                → send N-1 a=2 b=2
    nack a: bad            → rejected a, send N-2 a=1 b=2`,
  'also when the other client enforces the rejected content by now': `
    other acknowledged a=1 → nothing
    other acknowledged a=2 → nothing
    publish a=2 b=2        → nothing
    request                → send N-1 a=2 b=2
    nack a: bad            → rejected a, send N-2 a=1 b=2`,
  'rejected content comes back later and is withheld again': `
    publish a=2 b=1        → nothing
    request                → send N-1 a=2 b=1
    nack a: bad            → rejected a, send N-2 b=1
    ack                    → acknowledged b=1
    publish a=3 b=1        → send N-3 a=3 b=1
    ack                    → acknowledged a=3 b=1
    publish a=2 b=2        → send N-4 a=3 b=2`,
  'a rejection while a newer snapshot waits': `
    publish a=1            → nothing
    request                → send N-1 a=1
    publish a=1 b=1        → nothing
    nack a: bad            → rejected a, send N-2 b=1`,
  'a new stream gets a rejected version once': `
    publish a=2 b=2        → nothing
    request                → send N-1 a=2 b=2
    nack bad               → rejected
    reconnect              → nothing
    request                → send M-1 a=2 b=2
    ack nonce=N-1          → ignored
    nack b: bad            → rejected b, send M-2 a=2`,
  'a resource that needs a feature is withheld from a client that lacks it': `
    request                → nothing
    publish a=1+windows b=1 → send N-1 b=1
    ack                    → acknowledged b=1
    publish a=2+windows b=1 → nothing
    publish a=2 b=1        → send N-2 a=2 b=1`,
  'a client gets a resource if it lists all features that the resource needs': `
    lists windows          → nothing
    request                → nothing
    publish a=1+windows b=1+windows+calendar → send N-1 a=1+windows`,
  'withheld content is replaced with the last good one, if the client has its features': `
    request                → nothing
    publish a=1            → send N-1 a=1
    ack                    → acknowledged a=1
    publish a=2+windows    → nothing
    other acknowledged a=2+windows → nothing
    publish a=3+windows b=1 → send N-2 a=1 b=1`,
}

const typeUrl = 'type.googleapis.com/test.Thing'

/**
 * Parses a snapshot, such as `a=1 b=2+windows`: resources with their contents and, after a plus, the features
 * that they need.
 */
function parse(text: string): Snapshot {
  const pairs = text.split(' ').filter(pair => pair !== '')
  return createSnapshot(
    typeUrl,
    pairs.map(pair => createResource(pair.split('=')[0] ?? '', Buffer.from(pair), pair.split('+').slice(1))),
  )
}

function show({ resources }: Snapshot): string {
  return Array.from(resources.values(), ({ bytes }) => Buffer.from(bytes).toString()).join(' ')
}

function play() {
  const acknowledgements = new Acknowledgements({ nowMs: () => 0, monotonicMs: () => 0 })
  const open = (uid: string) =>
    acknowledgements.opened({ uid, pod: uid, nodeId: '', namespace: '', features: [], peer: '' }, '')
  const [me, other] = [open('me'), open('other')]
  let state = createStreamState('N', undefined)

  function next(said: string): string {
    const offered = offer(state, name => acknowledgements.lastGood(me, name))
    state = offered.state
    if (offered.response === undefined) return said || 'nothing'
    const { nonce, snapshot } = offered.response
    return `${said}${said && ', '}send ${nonce} ${show(snapshot)}`.trim()
  }

  function publish(snapshot: Snapshot): string {
    acknowledgements.retain(snapshot)
    state = renew(state, snapshot)
    return next('')
  }

  function ask(request: Parameters<typeof receive>[1]): string {
    const received = receive(state, request)
    state = received.state
    switch (received.outcome.kind) {
      case 'opened':
        return next('')
      case 'acknowledged': {
        const { snapshot } = received.outcome
        acknowledgements.acknowledged(me, snapshot)
        return next(`acknowledged ${show(snapshot)}`)
      }
      case 'rejected': {
        const { rejection } = received.outcome
        acknowledgements.rejected(me, rejection)
        return next(['rejected', ...rejection.named.map(({ resource }) => resource.name)].join(' '))
      }
      case 'ignored':
        return 'ignored'
    }
  }

  return (line: string): string => {
    const last = state.outstanding
    const nonce = /nonce=(\S*)/.exec(line)?.[1] ?? last?.nonce ?? `${state.nonceScope}-${state.sentCount}`
    const claimed = /version=(\S*)/.exec(line)?.[1]
    const versionInfo = claimed === undefined ? (last?.snapshot.version ?? '') : parse(claimed).version
    const request = { versionInfo, responseNonce: nonce }
    const [command = '', ...words] = line.split(' ')
    const rest = words.filter(word => !/^(nonce|version)=/.test(word)).join(' ')
    switch (command) {
      case 'publish':
        return publish(parse(rest))
      case 'request':
      case 'ack':
        return ask({ ...request, error: /error=(\S*)/.exec(line)?.[1] })
      case 'nack':
        return ask({ ...request, error: rest.replaceAll('⏎', '\n') })
      case 'other':
        acknowledgements.acknowledged(other, parse(rest.replace('acknowledged ', '')))
        return 'nothing'
      case 'lists':
        state = createStreamState('N', state.snapshot, new Set(words))
        return 'nothing'
      case 'reconnect':
        state = createStreamState('M', state.snapshot)
        return 'nothing'
      default:
        throw new Error(`no such command: ${line}`)
    }
  }
}

for (const [name, story] of Object.entries(cases)) {
  test(name, () => {
    const run = play()
    const lines = story.trim().split('\n')
    const commands = lines.map(line => (line.split('→')[0] ?? '').trim())
    const seen = commands.map(command => `${command} → ${run(command)}`)
    assert.deepEqual(
      seen,
      lines.map(line => line.trim().replace(/\s*→\s*/, ' → ')),
    )
  })
}

test('a stream remembers a limited number of rejections, and pauses at the limit instead of looping', () => {
  const count = streamLimits.maxRejectedContents + 10
  const snapshot = parse(Array.from({ length: count }, (_, index) => `r${index}=1`).join(' '))
  let state = receive(createStreamState('N', snapshot), {
    versionInfo: '',
    responseNonce: '',
    error: undefined,
  }).state
  let rounds = 0
  for (; rounds < count * 2; rounds += 1) {
    const offered = offer(state, () => [])
    if (offered.response === undefined) break
    const first = offered.response.snapshot.resources.keys().next().value
    const responseNonce = offered.response.nonce
    state = receive(offered.state, { versionInfo: '', responseNonce, error: `${first}: bad` }).state
  }
  assert.equal(rounds, streamLimits.maxRejectedContents + 1)
  assert.equal(state.rejectedContents.size, streamLimits.maxRejectedContents)
  assert.ok(state.rejectedVersions.size <= streamLimits.maxRejectedVersions)
})
