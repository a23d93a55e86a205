import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { importRules } from './house/import-rules.ts'
import { importRuleFor, importTable } from './house/import-table.ts'
import { codePaths, isTest, root, textOf } from './house/source-files.ts'

/** The rules of imports between folders, packages and drivers. */

const importStatement = /^(?:import|export) (?:(?:type )?[\w\s{},*]*?from )?'([^']+)'|\bimport\('([^']+)'\)/gm

/** Returns the imports of a file, as paths below the root; a package of others by its name. */
function importsOf(path: string): string[] {
  const found: string[] = []
  for (const [, atTop, atRunTime = ''] of textOf(path).matchAll(importStatement)) {
    const specifier = atTop ?? atRunTime
    if (specifier.startsWith('.')) found.push(join(dirname(path), specifier))
    else found.push(inWorkspace(specifier))
  }
  return found
}

function inWorkspace(specifier: string): string {
  const [, name = '', rest = ''] = /^@tollway\/([^/]+)\/?(.*)$/.exec(specifier) ?? []
  if (name === '') return specifier
  return services.includes(name) ? `services/${name}/${rest}` : `${name}/${rest}`
}

const services = ['broker', 'chassis', 'grpc', 'payments', 'ratelimit', 'xds-client']

const isOurs = (imported: string) => /^(proto|crds|operator|services|test)\//.test(imported)

test('imports follow the rules of their folders', () => {
  const wrong: string[] = []
  for (const path of codePaths.filter(file => !isTest(file))) {
    const rule = importRuleFor(path)
    if (rule === undefined) {
      wrong.push(`${path}: no rule of test/house/import-rules.ts names its folder`)
      continue
    }
    const { place, mayImport } = rule
    for (const imported of importsOf(path).filter(isOurs)) {
      if ([place, ...mayImport].some(other => imported.startsWith(other))) continue
      wrong.push(`${path} imports ${imported}; ${place} may import from ${mayImport.join(', ') || 'nowhere'}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('each permission of the table is used', () => {
  const used = new Map<string, Set<string>>()
  for (const path of codePaths.filter(file => !isTest(file))) {
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

test('test/house/imports.md has the table of the import rules', () => {
  const path = 'test/house/imports.md'
  const expected = textOf(path).replace(/^\| Path \| Content \|.*(?:\n\|.*)*/m, () => importTable())
  if (process.env['GOLDEN'] === 'write') writeFileSync(join(root, path), expected)
  else assert.equal(textOf(path), expected, 'run `make golden`')
})

test('a package exports the files that production code of other packages imports, and no more', () => {
  const imported = new Map<string, Set<string>>()
  const relative: string[] = []
  for (const path of codePaths.filter(file => !isTest(file) && !file.startsWith('test/'))) {
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

/** A driver, and the only files that may know it. Tests may use any, as clients. */
const homes: readonly [RegExp, RegExp][] = [
  [/^ioredis$/, /^(test\/bench\/yardstick|services\/broker\/stream-log)\//],
  [/^@opentelemetry\//, /^services\/chassis\/tracing\/tracing\.ts$/],
  [/^@grpc\/grpc-js$/, /^services\/grpc\//],
  [/^pino$/, /^services\/chassis\/log\/log\.ts$/],
  [/^typebox/, /^(crds|operator\/api)\//],
  [/^prom-client$/, /^operator\/environments\/kubernetes\/metrics\.ts$/],
  [/^esbuild$/, /^images\//],
  [/^@kubernetes\/client-node$/, /^operator\/environments\/kubernetes\/api\//],
  [/^pg$/, /^services\/payments\/storage\/engine\/postgres(-client)?\.ts$/],
  [/^@electric-sql\/pglite$/, /^services\/payments\/storage\/engine\/pglite\.ts$/],
  [/^@?fastify/, /^services\/payments\/(http|pages)\//],
  [/^nodemailer$/, /^services\/payments\/mail\//],
]

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

test('each HTTP server of pages rejects the requests of foreign web pages', () => {
  const home = 'services/chassis/net/guarded-server.ts'
  // A proxy on the same machine may pass on the Host of its callers, as with envoyproxy/ratelimit.
  const decisions = 'services/ratelimit/servers/http-server.ts'
  const wrong = codePaths.filter(
    path =>
      path !== home &&
      path !== decisions &&
      !isTest(path) &&
      /import \{[^}]*\bcreateServer\b[^}]*net\/node-http/.test(textOf(path)),
  )
  assert.deepEqual(wrong, [], `take createGuardedServer of ${home}`)
})

test('modules that take much memory are imported only where they are allowed', () => {
  const wrong = codePaths
    .filter(path => !isTest(path))
    .flatMap(path =>
      heavy
        .filter(({ text: found, where }) => where.test(path) && found.test(textOf(path)))
        .map(({ instead }) => `${path}: take ${instead}`),
    )
  assert.deepEqual(wrong, [])
})

test('each third-party driver has one home', () => {
  const wrong: string[] = []
  for (const path of codePaths.filter(file => !isTest(file))) {
    for (const imported of importsOf(path)) {
      const home = homes.find(([driver]) => driver.test(imported))?.[1]
      if (home !== undefined && !home.test(path)) wrong.push(`${path} imports ${imported}`)
    }
  }
  assert.deepEqual(wrong, [])
})
