import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { codePaths, isTest, textOf } from './house/source-files.ts'

/** The rules of imports between folders, packages and drivers, which test/house/imports.md states. */

const rulesPage = 'test/house/imports.md'
const services = ['broker', 'chassis', 'grpc', 'payments', 'ratelimit', 'xds-client']
const productionPaths = codePaths.filter(path => !isTest(path))

/** The first and the last cell of each row of the table below a heading, as lists of what they quote. */
function rowsBelow(heading: string): readonly (readonly [readonly string[], readonly string[]])[] {
  const [, section = ''] = textOf(rulesPage).split(`\n## ${heading}\n`)
  const quoted = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text)
  return [...(section.split('\n## ')[0]?.matchAll(/^\| (`.*) \|$/gm) ?? [])].map(([, row = '']) => {
    const cells = row.split(' | ')
    return [quoted(cells[0]), quoted(cells.at(-1))]
  })
}

const importRules = rowsBelow('Folders').map(([[place = ''], mayImport]) => ({ place, mayImport }))
const packageHomes = rowsBelow('Packages of others').flatMap(([names, homes]) =>
  names.map(name => ({ name, homes })),
)

/** Returns the rule for a file; undefined if no rule names its folder. */
function importRuleFor(path: string) {
  return importRules
    .filter(({ place }) => path.startsWith(place))
    .sort((a, b) => b.place.length - a.place.length)[0]
}

const importStatement =
  /^(?:import|export) (?:(?:type )?[\w\s{},*]*?from )?'([^'$]+)'|\bimport\('([^'$]+)'\)/gm

/** Returns the imports of a file, as paths below the root; a package of others by its name. */
function importsOf(path: string): readonly string[] {
  return [...textOf(path).matchAll(importStatement)].map(([, atTop, atRunTime = '']) => {
    const specifier = atTop ?? atRunTime
    return specifier.startsWith('.') ? join(dirname(path), specifier) : inWorkspace(specifier)
  })
}

function inWorkspace(specifier: string): string {
  const [, name = '', rest = ''] = /^@tollway\/([^/]+)\/?(.*)$/.exec(specifier) ?? []
  if (name === '') return specifier
  return services.includes(name) ? `services/${name}/${rest}` : `${name}/${rest}`
}

const isOurs = (imported: string) => /^(proto|crds|operator|services|test)\//.test(imported)

test('imports follow the rules of their folders', () => {
  assert.ok(importRules.length > 40)
  const wrong = productionPaths.flatMap(path => {
    const rule = importRuleFor(path)
    if (rule === undefined) return [`${path}: no rule of ${rulesPage} names its folder`]
    const { place, mayImport } = rule
    return importsOf(path)
      .filter(
        imported => isOurs(imported) && ![place, ...mayImport].some(other => imported.startsWith(other)),
      )
      .map(
        imported => `${path} imports ${imported}; ${place} may import ${mayImport.join(', ') || 'nothing'}`,
      )
  })
  assert.deepEqual(wrong, [])
})

test('each permission of the rules is used', () => {
  const used = new Map<string, Set<string>>()
  for (const path of productionPaths) {
    const { place = '', mayImport = [] } = importRuleFor(path) ?? {}
    const permissions = importsOf(path)
      .filter(imported => !imported.startsWith(place))
      .flatMap(imported => mayImport.filter(other => imported.startsWith(other)))
    used.set(place, new Set([...(used.get(place) ?? []), ...permissions]))
  }
  const unused = importRules.flatMap(({ place, mayImport }) =>
    mayImport.filter(other => !used.get(place)?.has(other)).map(other => `${place}: ${other}`),
  )
  const empty = importRules.filter(({ place }) => !used.has(place)).map(({ place }) => place)
  assert.deepEqual({ unused, empty }, { unused: [], empty: [] })
})

test('a package exports the files that production code of other packages imports, and no more', () => {
  const imported = new Map<string, Set<string>>()
  const relative: string[] = []
  for (const path of productionPaths) {
    for (const [, specifier = ''] of textOf(path).matchAll(importOrLoad)) {
      const [, name, rest] = /^@tollway\/([^/]+)\/(.*)$/.exec(specifier) ?? []
      if (name !== undefined && rest !== undefined) {
        imported.set(name, (imported.get(name) ?? new Set()).add(`./${rest}`))
      } else if (specifier.startsWith('.')) {
        const target = join(dirname(path), specifier)
        if (isOurs(target) && packageOf(target) !== packageOf(path)) relative.push(`${path}: ${specifier}`)
      }
    }
  }
  for (const name of [...services, 'crds', 'operator']) {
    const manifest = JSON.parse(textOf(join(services.includes(name) ? 'services' : '', name, 'package.json')))
    assert.deepEqual(Object.keys(manifest.exports).sort(), [...(imported.get(name) ?? [])].sort(), name)
  }
  assert.deepEqual(relative, [], 'a relative import avoids the exports of another package')
})

/** Matches also the imports inside functions and types. */
const importOrLoad = /(?:from |import |import\()'([^']+)'/g

const packageOf = (path: string) => /^(services\/[^/]+|[^/]+)\//.exec(path)?.[1]

test('each package of others has a row in the rules, and is imported only where it says', () => {
  const wrong = productionPaths.flatMap(path =>
    importsOf(path).flatMap(imported => {
      if (isOurs(imported) || /^(node:|[\w-]+\/.*\.ts$)/.test(imported)) return []
      const row = packageHomes.find(({ name }) => imported === name || imported.startsWith(`${name}/`))
      if (row === undefined) return [`${path} imports ${imported}, which has no row in ${rulesPage}`]
      const isAllowed = row.homes.length === 0 || row.homes.some(home => path.startsWith(home))
      return isAllowed ? [] : [`${path} imports ${imported}; only ${row.homes.join(', ')} may`]
    }),
  )
  assert.deepEqual(wrong, [])
})

/** Modules that take megabytes when they are imported, where they are forbidden, and their replacement. */
const heavy: readonly { readonly text: RegExp; readonly where: RegExp; readonly instead: string }[] = [
  {
    text: /^import (?!type )[^']*'node:http'/m,
    where: /^(services|operator)\//,
    instead: 'services/chassis/net/node-http.ts',
  },
  {
    text: /^import (?!type )[^']*'(@tollway\/proto\/|@bufbuild\/protobuf')/m,
    where: /^services\/ratelimit\/(?!config\/|telemetry\/)/,
    instead: "a codec of its own: a process without a feed has no use for the messages' descriptions",
  },
]

test('modules that take much memory are imported only where they are allowed', () => {
  const wrong = productionPaths.flatMap(path =>
    heavy
      .filter(({ text, where }) => where.test(path) && text.test(textOf(path)))
      .map(({ instead }) => `${path}: take ${instead}`),
  )
  assert.deepEqual(wrong, [])
})

test('each HTTP server of pages rejects the requests of foreign web pages', () => {
  const home = 'services/chassis/net/guarded-server.ts'
  // A proxy on the same machine may pass on the Host of its callers, as with envoyproxy/ratelimit.
  const decisions = 'services/ratelimit/servers/http-server.ts'
  const wrong = productionPaths.filter(
    path =>
      path !== home &&
      path !== decisions &&
      /import \{[^}]*\bcreateServer\b[^}]*net\/node-http/.test(textOf(path)),
  )
  assert.deepEqual(wrong, [], `take createGuardedServer of ${home}`)
})
