import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cpuMsOf } from '../../../test/support/cpu-time.ts'
import { createRouteChooser, type RouteIds } from './choose-route.ts'
import { defaultRoute, type Route } from './route.ts'

/**
 * Parses a route: its name, its age, and the fields of its match: `hero@5 source=a2f prefix=game-
 * target=hero`.
 */
function parseRoute(text: string): Route {
  const [, name = '', createdMs = '0', fields = ''] = /^(\S*?)(?:@(\d+))?((?: \S+)*)$/.exec(text.trim()) ?? []
  const field = (key: string) => new RegExp(` ${key}=(\\S*)`).exec(fields)?.[1] ?? ''
  const match = {
    sourceServiceId: field('source'),
    streamIdPrefix: field('prefix'),
    targetObjectId: field('target'),
  }
  return { ...defaultRoute, name, createdMs: Number(createdMs), match }
}

function parseIds(text: string): RouteIds {
  const field = (key: string) => new RegExp(`(?:^| )${key}=(\\S*)`).exec(text)?.[1] ?? ''
  return { sourceServiceId: field('source'), streamId: field('stream'), targetObjectId: field('target') }
}

const tables: readonly (readonly [string, string])[] = [
  [
    '',
    `
    stream=game-1             -> (default)
                              -> (default)
    `,
  ],
  [
    'all | s source=a2f | p prefix=game- | t target=hero',
    `
                              -> all
    stream=chat-1             -> all
    source=a2f                -> s
    source=a2f2               -> all
    source=A2F                -> all
    stream=game-1             -> p
    stream=game-              -> p
    stream=game               -> all
    target=hero               -> t
    target=heroine            -> all
    stream=game-1 target=hero -> p
    source=a2f stream=game-1  -> p
    `,
  ],
  [
    'p prefix=game-level-1 | st source=a2f target=hero | sp source=a2f prefix=g',
    `
    stream=game-level-1                        -> p
    source=a2f stream=game-level-1             -> p
    source=a2f stream=game                     -> sp
    source=a2f target=hero                     -> st
    source=a2f stream=game-level-1 target=hero -> p
    source=a2f stream=game target=hero         -> sp
    target=hero                                -> (default)
    `,
  ],
  [
    'g prefix=g | gam prefix=gam | game prefix=game | t target=hero',
    `
    stream=g                  -> g
    stream=ga                 -> g
    stream=gam                -> gam
    stream=games              -> game
    stream=go target=hero     -> g
    target=hero               -> t
    `,
  ],
  [
    'young@9 prefix=x | b@3 prefix=x | a@3 prefix=x | old-source@1 source=s | old-target@2 target=t',
    `
    stream=x                  -> a
    source=s target=t         -> old-source
    source=s stream=x         -> a
    `,
  ],
  [
    'constructor target=__proto__ | é prefix=é | 🎮 prefix=🎮',
    `
    target=__proto__          -> constructor
    source=constructor        -> (default)
    stream=é1                 -> é
    stream=🎮1                -> 🎮
    `,
  ],
]

test('the longest prefix takes precedence, then the most fields, the oldest, the first by name', () => {
  for (const [routes, cases] of tables) {
    const texts = routes === '' ? [] : routes.split('|')
    for (const list of [texts.map(parseRoute), texts.map(parseRoute).reverse()]) {
      const choose = createRouteChooser(list)
      for (const line of cases.split('\n').filter(text => text.includes('->'))) {
        const [ids = '', expected] = line.split('->').map(part => part.trim())
        const chosen = choose(parseIds(ids))
        assert.equal(chosen === defaultRoute ? '(default)' : chosen.name, expected, `${routes}: ${line}`)
      }
    }
  }
})

/** Chooses by the same order as `createRouteChooser`, but compares all routes. */
function chooseNaively(routes: readonly Route[], ids: RouteIds): Route {
  const matching = routes.filter(
    ({ match }) =>
      ['', ids.sourceServiceId].includes(match.sourceServiceId) &&
      ['', ids.targetObjectId].includes(match.targetObjectId) &&
      ids.streamId.startsWith(match.streamIdPrefix),
  )
  const fields = ({ match }: Route) => Object.values(match).filter(value => value !== '').length
  const [best = defaultRoute] = matching.toSorted(
    (a, b) =>
      b.match.streamIdPrefix.length - a.match.streamIdPrefix.length ||
      fields(b) - fields(a) ||
      a.createdMs - b.createdMs ||
      (a.name < b.name ? -1 : 1),
  )
  return best
}

const word = fc.constantFrom('', 'a', 'b')
const prefix = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 4 })
const match = fc.record({ sourceServiceId: word, streamIdPrefix: prefix, targetObjectId: word })
const routeLists = fc
  .array(fc.record({ match, createdMs: fc.nat(2) }), { maxLength: 30 })
  .map(list => list.map((route, index) => ({ ...defaultRoute, ...route, name: `shop/${index}` })))
const requests = fc.record({
  sourceServiceId: word,
  streamId: fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 }),
  targetObjectId: word,
})

test('the choice agrees with a naive implementation', () => {
  const property = fc.property(routeLists, requests, (routes, ids) => {
    assert.equal(createRouteChooser(routes)(ids).name, chooseNaively(routes, ids).name)
  })
  fc.assert(property, { numRuns: Number(process.env['FC_RUNS'] ?? 2_000) })
})

test('a choice among 10,000 routes takes far less than a millisecond', t => {
  const routes = Array.from({ length: 10_000 }, (_, index): Route => {
    const match = {
      sourceServiceId: index % 3 === 0 ? '' : `s${index}`,
      streamIdPrefix: `${'p'.repeat(index % 90)}-${index}`,
      targetObjectId: index % 2 === 0 ? '' : `t${index % 50}`,
    }
    return { ...defaultRoute, name: `shop/${index}`, match }
  })
  const choose = createRouteChooser(routes)
  const rounds = 2_000
  const tookMs = cpuMsOf(() => {
    for (let round = 0; round < rounds; round++) {
      const ids = {
        sourceServiceId: `s${round}`,
        streamId: 'p'.repeat(100),
        targetObjectId: `t${round % 50}`,
      }
      // Nothing matches, so the chooser tries every prefix length.
      assert.equal(choose(ids), defaultRoute)
    }
  })
  const tookUs = (tookMs / rounds) * 1000
  t.diagnostic(`${tookUs.toFixed(1)} µs a choice`)
  assert.ok(tookUs < 500, `${tookUs} µs a choice`)
})
