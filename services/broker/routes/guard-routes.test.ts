import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRouteChooser } from './choose-route.ts'
import { guardRoutes } from './guard-routes.ts'
import { defaultRoute, type Route } from './route.ts'

/** Parses a route: `kiosk token=1 source=a2f prefix=kiosk- target=claire`. */
function parseRoute(text: string): Route {
  const [name = '', ...words] = text.trim().split(' ')
  const fields = Object.fromEntries(words.map(word => word.split('=')))
  const { source = '', prefix = '', target = '', token } = fields
  const match = { sourceServiceId: source, streamIdPrefix: prefix, targetObjectId: target }
  const hashes = (...texts: readonly (string | undefined)[]) =>
    texts.flatMap(text => (text === undefined ? [] : [Buffer.from(text)]))
  const tokens = { push: hashes(token, fields['push']), pull: hashes(token, fields['pull']) }
  return { ...defaultRoute, name, match, tokens }
}

const tables: readonly (readonly [string, string])[] = [
  [
    'kiosk token=1 source=a2f prefix=kiosk- target=claire',
    `
    source=a2f stream=kiosk-1 target=claire   -> kiosk 1
    source=other stream=kiosk-1 target=claire -> (default) 1
    source=a2f stream=kiosk-1 target=other    -> (default) 1
    stream=kiosk-1                            -> (default) 1
    stream=kiosk                              -> (default) open
    source=a2f target=claire                  -> (default) open
    `,
  ],
  [
    'a token=1 source=a prefix=k- | b token=2 source=b prefix=k- | open prefix=k- | x token=3 source=x | y prefix=k-y-',
    `
    source=a stream=k-1   -> a 1
    source=b stream=k-1   -> b 2
    source=c stream=k-1   -> open 1 2
    source=x stream=k-1   -> open 1 2
    source=x stream=other -> x 3
    source=c stream=k-y-1 -> y 1 2
    `,
  ],
  [
    'in push=1 source=a prefix=k- | out pull=2 source=b prefix=k- | both token=3 source=c prefix=k- | open prefix=k-',
    `
    source=a stream=k-1 -> in push 1 pull 2 3
    source=b stream=k-1 -> out push 1 3 pull 2
    source=c stream=k-1 -> both 3
    source=d stream=k-1 -> open push 1 3 pull 2 3
    `,
  ],
  [
    'stage push=1 source=a prefix=k-',
    `
    source=a stream=k-1 -> stage push 1 pull open
    source=b stream=k-1 -> (default) push 1 pull open
    `,
  ],
  [
    'outer token=1 prefix=k- | inner token=2 source=a prefix=k-in-',
    `
    source=a stream=k-in-1 -> inner 2
    source=b stream=k-in-1 -> outer 2
    source=a stream=k-out  -> outer 1
    `,
  ],
  [
    'hero token=1 source=a target=hero | theirs prefix=theirs- | source token=2 source=s',
    `
    source=a target=hero                -> hero 1
    source=b target=hero                -> (default) 1
    source=s target=hero                -> source 1
    source=s target=other               -> source 2
    source=b stream=theirs-1 target=hero -> theirs open
    `,
  ],
]

test('a token protects its streams from a caller with any source', () => {
  for (const [list, cases] of tables) {
    const routes = list.split('|').map(parseRoute)
    const choose = guardRoutes(routes, createRouteChooser(routes))
    for (const line of cases.split('\n').filter(text => text.includes('->'))) {
      const [ids = '', expected = ''] = line.split('->').map(part => part.trim())
      const fields = Object.fromEntries(ids.split(' ').map(word => word.split('=')))
      const { source = '', stream = '', target = '' } = fields
      const { name, tokens } = choose({
        sourceServiceId: source,
        streamId: stream,
        targetObjectId: target,
      })
      const [push, pull] = [tokens.push, tokens.pull].map(
        hashes => hashes.map(hash => Buffer.from(hash).toString()).join(' ') || 'open',
      )
      const found = push === pull ? push : `push ${push} pull ${pull}`
      assert.equal(`${name || '(default)'} ${found}`, expected, `${list}: ${line}`)
    }
  }
})
