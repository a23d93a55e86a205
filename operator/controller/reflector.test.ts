import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { waitFor } from '../../test/support/wait-for.ts'
import {
  createReflector,
  type Reflector,
  type ReflectorSource,
  type ReflectorTiming,
  type WatchedEvent,
} from './reflector.ts'
import type { ReflectedObject } from './reflector-store.ts'

const timing: Partial<ReflectorTiming> = {
  shortestWatchSeconds: 1,
  longestWatchSeconds: 1,
  watchGraceMs: 100,
  watchSpacingMs: 20,
  retryInitialMs: 1,
  retryMaxMs: 20,
  relistSpreadMs: 20,
}

/** Returns an object: `shop/a@3` is version 3 of the object a in the namespace shop. */
function object(text: string): ReflectedObject {
  const [, namespace = '', name = '', resourceVersion = ''] = /^(.*)\/(.*)@(.*)$/.exec(text) ?? []
  return { metadata: { namespace, name, resourceVersion } }
}

function format({ metadata }: ReflectedObject): string {
  return `${metadata.namespace}/${metadata.name}@${metadata.resourceVersion}`
}

/** Returns an event: `+` added, `~` modified, `-` deleted, `=` bookmark, as in `~shop/a@3` or `=@7`. */
function event(text: string): WatchedEvent<ReflectedObject> {
  const types = { '+': 'ADDED', '~': 'MODIFIED', '-': 'DELETED', '=': 'BOOKMARK' } as const
  const type = types[text.charAt(0) as keyof typeof types]
  if (type === 'BOOKMARK') return { type, object: { metadata: { name: '', resourceVersion: text.slice(2) } } }
  return { type, object: object(text.slice(1)) }
}

type Source = ReflectorSource<ReflectedObject>

/** Returns a page of a list: `7: shop/a@3 shop/b@5` has the version 7 and two objects. */
function page(text: string): Awaited<ReturnType<Source['list']>> {
  const [resourceVersion = '', rest = ''] = text.split(': ')
  return { resourceVersion, items: rest.split(' ').filter(Boolean).map(object) }
}

const gone = () => Object.assign(new Error('too old'), { code: 410 })

/** The events of one watch in their order. An error breaks the watch, and `end` ends it. */
type Script = readonly (string | Error)[]

interface Scripts {
  /** The results of the lists. The last one is repeated. */
  readonly lists: readonly (string | Error)[]
  /** The events of each watch. Further watches stay silent until they are ended. */
  readonly watches: readonly Script[]
}

describe('a reflector', () => {
  const running: Reflector<ReflectedObject>[] = []
  afterEach(() => Promise.all(running.splice(0).map(reflector => reflector.stop())))

  function startReflector(
    scripts: Scripts | ((namespace: string | undefined) => Scripts),
    options: {
      readonly namespaces?: readonly string[]
      readonly timing?: Partial<ReflectorTiming>
    } = {},
  ) {
    const scriptsOf = typeof scripts === 'function' ? scripts : () => scripts
    const calls: ('list' | 'watch')[] = []
    const lists: Parameters<Source['list']>[0][] = []
    const watches: Parameters<Source['watch']>[0][] = []
    const errors: string[] = []
    const states: string[] = []
    const changes: string[] = []
    const reflector = createReflector<ReflectedObject>({
      source: {
        async list(request) {
          const answers = scriptsOf(request.namespace).lists
          lists.push(request)
          calls.push('list')
          const asked = lists.filter(({ namespace }) => namespace === request.namespace).length
          const answer = answers[Math.min(asked, answers.length) - 1] ?? assert.fail('no list')
          if (answer instanceof Error) throw answer
          return page(answer)
        },
        async *watch(request) {
          const script = scriptsOf(request.namespace).watches[watches.length]
          watches.push(request)
          calls.push('watch')
          for (const step of script ?? []) {
            if (step instanceof Error) throw step
            if (step === 'end') return
            yield event(step)
          }
          await new Promise((_resolve, reject) => {
            const abort = () => reject(request.signal.reason)
            if (request.signal.aborted) abort()
            request.signal.addEventListener('abort', abort)
          })
        },
      },
      namespaces: options.namespaces ?? 'all',
      onError(error) {
        errors.push((error as Error).message)
        states.push('fails')
      },
      onRecovered: () => states.push('recovered'),
      random: () => 0.5,
      timing: { ...timing, ...options.timing },
    })
    reflector.onChange((namespace, name) => {
      const found = reflector.get(namespace, name)
      changes.push(found === undefined ? `${namespace}/${name} is gone` : format(found))
    })
    running.push(reflector)
    const content = () => reflector.list().map(format).sort().join(' ')
    return { reflector, calls, lists, watches, errors, states, changes, content }
  }

  const cases: [string, Scripts, string, string[]][] = [
    [
      'follows additions, changes and deletions',
      {
        lists: ['5: shop/a@1 shop/b@2'],
        watches: [['+shop/c@6', '~shop/a@7', '-shop/b@8']],
      },
      'shop/a@7 shop/c@6',
      ['shop/a@1', 'shop/b@2', 'shop/c@6', 'shop/a@7', 'shop/b is gone'],
    ],
    [
      'continues from a bookmark after a broken watch, without a list',
      { lists: ['5: shop/a@1', '5: shop/never@1'], watches: [['=@9', new Error('cut')], ['~shop/a@10']] },
      'shop/a@10',
      ['shop/a@1', 'shop/a@10'],
    ],
    [
      'skips events that are older than its list',
      {
        lists: ['5: shop/a@5'],
        watches: [['~shop/a@9', '~shop/a@8', '-shop/a@7', '+shop/b@6', '~shop/a@10']],
      },
      'shop/a@10',
      ['shop/a@5', 'shop/a@9', 'shop/a@10'],
    ],
    [
      'lists again when its version is too old, and finds deleted objects',
      { lists: ['5: shop/a@1 shop/b@2', '20: shop/a@1 shop/c@15'], watches: [[gone()], ['=@21']] },
      'shop/a@1 shop/c@15',
      ['shop/a@1', 'shop/b@2', 'shop/c@15', 'shop/b is gone'],
    ],
    [
      'keeps its content when a list is older',
      { lists: ['9: shop/a@9', '8: ', '7: ', '10: shop/a@9 shop/b@10'], watches: [[gone()]] },
      'shop/a@9 shop/b@10',
      ['shop/a@9', 'shop/b@10'],
    ],
    [
      'retries until it gets a list',
      { lists: [new Error('nobody'), gone(), new Error('nobody'), '5: shop/a@1'], watches: [] },
      'shop/a@1',
      ['shop/a@1'],
    ],
    [
      'compares versions as numbers',
      { lists: ['9: shop/a@9'], watches: [['~shop/a@10', '~shop/a@100', '~shop/a@11']] },
      'shop/a@100',
      ['shop/a@9', 'shop/a@10', 'shop/a@100'],
    ],
    [
      'accepts versions that are not numbers in any order',
      { lists: ['x9: shop/a@x9'], watches: [['~shop/a@x8', '~shop/a@x10']] },
      'shop/a@x10',
      ['shop/a@x9', 'shop/a@x8', 'shop/a@x10'],
    ],
  ]
  for (const [name, scripts, content, changes] of cases) {
    it(name, async () => {
      const run = startReflector(scripts)
      await waitFor(content, () => run.content() === content)
      assert.deepEqual(run.changes, changes)
      assert.equal(run.reflector.hasSynced(), true)
    })
  }

  it('waits between watches that the server ends immediately', async () => {
    const { watches, errors } = startReflector({
      lists: ['5: shop/a@1'],
      watches: Array.from({ length: 100 }, () => ['end']),
    })
    const startMs = performance.now()
    await waitFor('some watches', () => watches.length >= 5)
    assert.ok(performance.now() - startMs >= 4 * 20 - 10)
    assert.deepEqual(errors, [])
  })

  it('waits between watches that break after an event', async () => {
    const { watches } = startReflector({
      lists: ['5: '],
      watches: Array.from({ length: 100 }, (_, index) => [`+shop/a@${index + 6}`, new Error('cut')]),
    })
    const startMs = performance.now()
    await waitFor('some watches', () => watches.length >= 5)
    assert.ok(performance.now() - startMs >= 4 * 20 - 10)
  })

  it('ends a watch that the server does not end in time, and opens another', async () => {
    const { watches, errors } = startReflector({ lists: ['5: '], watches: [] })
    await waitFor('a second watch', () => watches.length >= 2)
    assert.deepEqual(errors, [])
  })

  it('ends a silent watch, and continues after its last bookmark', async () => {
    const { watches, errors, reflector } = startReflector(
      { lists: ['5: '], watches: [['=@7', '=@9'], ['~shop/a@10']] },
      { timing: { shortestWatchSeconds: 600, longestWatchSeconds: 600, silentWatchMs: 50 } },
    )
    await waitFor('an event of the second watch', () => reflector.list().length === 1)
    assert.deepEqual(
      watches.slice(0, 2).map(({ resourceVersion }) => resourceVersion),
      ['5', '9'],
    )
    assert.deepEqual(errors, [])
  })

  it('lists again after several watches that failed without an event', async () => {
    const { calls, lists } = startReflector({
      lists: ['5: '],
      watches: Array.from({ length: 5 }, () => [new Error('too large resource version')]),
    })
    await waitFor('a second list', () => lists.length === 2)
    const failing = Array(5).fill('watch')
    assert.deepEqual(calls.slice(0, 7), ['list', ...failing, 'list'])
  })

  it('lists again at intervals, in case events were lost', async () => {
    const run = startReflector(
      { lists: ['5: shop/a@1', '9: shop/b@8'], watches: [['end'], ['end'], ['end']] },
      { timing: { relistMs: 30 } },
    )
    await waitFor('the lost object', () => run.content() === 'shop/b@8')
  })

  it('accepts an older resourceVersion if lists keep returning it, as after a restore of etcd', async () => {
    const run = startReflector(
      { lists: ['900: shop/a@900 shop/b@20', '50: shop/b@30'], watches: [[gone()]] },
      { timing: { staleListMs: 50 } },
    )
    await waitFor('the older time', () => run.content() === 'shop/b@30')
    assert.match(run.errors.join(), /the list is of resourceVersion 50, and 900 has been seen/)
  })

  it('lists each namespace, and has synced only when all of them are listed', async () => {
    let webAnswers = false
    const run = startReflector(
      namespace => ({
        lists: namespace === 'shop' ? ['5: shop/a@1'] : [webAnswers ? '6: web/a@6' : new Error('nobody')],
        watches: [],
      }),
      { namespaces: ['shop', 'web', 'shop'] },
    )
    await waitFor('one of them', () => run.content() === 'shop/a@1')
    assert.equal(run.reflector.hasSynced(), false)
    webAnswers = true
    assert.equal(await run.reflector.synced(), true)
    assert.equal(run.content(), 'shop/a@1 web/a@6')
  })

  for (const [what, after] of [
    ['an event', ['~shop/a@6']],
    ['the end of a watch', ['end']],
    ['a watch that stays open', []],
  ] as const) {
    it(`reports a failed watch, and its recovery by ${what}`, async () => {
      const broken: Script = [new Error('cut')]
      const run = startReflector(
        { lists: ['5: shop/a@1'], watches: [broken, broken, after] },
        { timing: { steadyWatchMs: after.length === 0 ? 30 : 600_000 } },
      )
      await waitFor('the recovery', () => run.states.includes('recovered'))
      assert.deepEqual(run.states, ['fails', 'fails', 'recovered'])
    })
  }

  it('reports the recovery only when the watch of every namespace works', async () => {
    let webAnswers = false
    const run = startReflector(
      namespace => ({
        lists: namespace === 'shop' || webAnswers ? ['5: '] : [new Error('forbidden')],
        watches: namespace === 'shop' ? [[new Error('cut')]] : [],
      }),
      { namespaces: ['shop', 'web'], timing: { steadyWatchMs: 30 } },
    )
    await waitFor('several failures', () => run.errors.filter(text => text === 'forbidden').length > 5)
    assert.ok(!run.states.includes('recovered'))
    webAnswers = true
    await waitFor('the recovery', () => run.states.includes('recovered'))
  })

  it('resolves the wait for the first list with false if it stops before', async () => {
    const { reflector } = startReflector({ lists: [new Error('nobody')], watches: [] })
    const synced = reflector.synced()
    await reflector.stop()
    assert.equal(await synced, false)
    assert.equal(reflector.hasSynced(), false)
  })
})
