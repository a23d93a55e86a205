import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRouteChooser } from './choose-route.ts'
import { guardRoutes } from './guard-routes.ts'
import { defaultRoute, type Route } from './route.ts'

/** `kiosk token=1 source=a2f prefix=kiosk- target=claire` */
function routeOf(text: string): Route {
  const [name = '', ...words] = text.trim().split(' ')
  const fields = Object.fromEntries(words.map(word => word.split('=')))
  const { source = '', prefix = '', target = '', token } = fields
  const match = { sourceServiceId: source, streamIdPrefix: prefix, targetObjectId: target }
  return { ...defaultRoute, name, match, tokenHashes: token === undefined ? [] : [Buffer.from(token)] }
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
    const routes = list.split('|').map(routeOf)
    const choose = guardRoutes(routes, createRouteChooser(routes))
    for (const line of cases.split('\n').filter(text => text.includes('->'))) {
      const [ids = '', expected = ''] = line.split('->').map(part => part.trim())
      const fields = Object.fromEntries(ids.split(' ').map(word => word.split('=')))
      const { source = '', stream = '', target = '' } = fields
      const { name, tokenHashes } = choose({
        sourceServiceId: source,
        streamId: stream,
        targetObjectId: target,
      })
      const tokens = tokenHashes.map(hash => Buffer.from(hash).toString()).join(' ')
      assert.equal(`${name || '(default)'} ${tokens || 'open'}`, expected, `${list}: ${line}`)
    }
  }
})
