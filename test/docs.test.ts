import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import type { Schema } from '@tollway/crds/schema.ts'
import { CORE_SCHEMA, loadAll } from 'js-yaml'
import { pages } from '../docs/generator/pages.ts'
import { runFolderCommand } from '../operator/cli/commands/run.ts'
import { parseOperatorConfig, validateOperatorConfig } from '../operator/environments/host/operator-config.ts'
import { translateAnimationStreamRoute } from '../operator/kinds/animation-stream-route/stream-route.ts'
import { translateMerchant } from '../operator/kinds/merchant/translate-merchant.ts'
import { translateRateLimitConfig } from '../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { collectOptions } from '../services/chassis/command-line/run-command.ts'
import { codePaths, isTest, paths, proseLines, textOf } from './house/source-files.ts'
import { temporaryFolder } from './support/temporary-folder.ts'
import { root } from './support/tollway.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const operatorPage = read('docs/reference/operator.md')

function generate(...args: readonly string[]) {
  const program = join(root, 'docs/generate.ts')
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })
  return { status, said: stdout + stderr }
}

test('the generated pages are up to date', () => {
  for (const { name, text } of pages()) {
    assert.equal(read(`docs/reference/${name}`), text, `docs/reference/${name} is stale; run: make generate`)
  }
})

test('the generator reports stale and missing pages, and writes them again', () => {
  const folder = temporaryFolder('docs')
  const missing = generate('--check', folder)
  assert.equal(missing.status, 1)
  assert.match(missing.said, /rate-limit-settings\.md is not what .* makes/)
  assert.match(generate(folder).said, /^wrote /)
  assert.deepEqual(generate('--check', folder), { status: 0, said: '' })
  appendFileSync(join(folder, 'rate-limit-config.md'), 'by hand\n')
  assert.equal(generate('--check', folder).status, 1)
})

const examples = [
  ['examples/every-field/checkout.yaml', rateLimitConfigKind, translateRateLimitConfig],
  ['examples/every-field/kiosk.yaml', animationStreamRouteKind, translateAnimationStreamRoute],
  ['examples/every-field/shop.yaml', merchantKind, translateMerchant],
] as const

for (const [example, { kind, spec }, translate] of examples) {
  test(`the example of ${kind} is valid, and has every field`, () => {
    const [resource] = loadAll(read(example), { schema: CORE_SCHEMA }) as { spec: unknown }[]
    const made = translate('shop/example', resource)
    assert.ok('value' in made, JSON.stringify(made))
    assert.deepEqual(made.warnings, [])
    const written = new Set<string>()
    JSON.stringify(resource?.spec, (name, value) => {
      written.add(name)
      return value
    })
    assert.deepEqual(
      fieldNames(spec).filter(name => !written.has(name)),
      [],
    )
  })
}

function fieldNames({ properties = {}, items }: Schema): readonly string[] {
  const below = [...Object.values(properties), ...(items ? [items] : [])]
  return [...Object.keys(properties), ...below.flatMap(fieldNames)]
}

test('the configuration file of the documentation is valid', () => {
  const [, text = ''] = /### Configuration file\n\n```yaml\n(.*?)```/s.exec(operatorPage) ?? []
  const parsed = parseOperatorConfig(text)
  assert.ok('value' in parsed, JSON.stringify(parsed))
  const judged = validateOperatorConfig(parsed.value)
  assert.ok('value' in judged, JSON.stringify(judged))
  assert.equal(judged.value.replicas, 3)
})

test('the documentation of the operator has exactly the existing options', () => {
  const options = new Set(collectOptions(runFolderCommand).map(([name]) => `--${name}`))
  assert.ok(options.size > 10)
  const rows = [...operatorPage.matchAll(/^\| `(--[a-z-]+)`/gm)].map(match => match[1])
  assert.deepEqual(new Set(rows), options)
})

test('the documentation of the operator has exactly the existing reasons of conditions', () => {
  const kinds = readdirSync(join(root, 'operator/kinds'), { recursive: true, encoding: 'utf8' }).filter(
    name => name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.startsWith('merchant/'),
  )
  const files = ['operator/status/resource-status.ts', ...kinds.map(name => `operator/kinds/${name}`)]
  const code = files.map(read).join('\n')
  const reasons = [...code.matchAll(/reason: '(\w+)'/g)].map(match => match[1])
  const [section = ''] = /## Status\n(.*?)(?:\n## |$)/s.exec(operatorPage) ?? []
  const rows = [...section.matchAll(/^\|[^|]*\| `(\w+)` \|/gm)].map(match => match[1])
  assert.deepEqual(new Set(rows), new Set(reasons))
})

test('decision records have a number, a title, a date and a status, and a row in the index', () => {
  const folder = 'docs/decisions'
  const names = readdirSync(join(root, folder)).filter(name => name !== 'README.md')
  const head =
    /^# (\d{4}): (.+)\n\nAccepted on (\d{4}-\d\d-\d\d)\.(?: Superseded by \[(\d{4})\]\(\4-[a-z0-9-]+\.md\)\.)?\n\n/
  const rows = names.map(name => {
    const [, number, title, date, later] = head.exec(read(`${folder}/${name}`)) ?? []
    assert.ok(name.startsWith(`${number}-`), `${name} begins with: # NUMBER: Title, and Accepted on DATE.`)
    const status = later === undefined ? 'accepted' : `superseded by ${later}`
    return `| [${number}](${name}) | ${title} | ${date} | ${status} |`
  })
  assert.equal(new Set(names.map(name => name.slice(0, 4))).size, names.length, 'two records have one number')
  assert.deepEqual(read(`${folder}/README.md`).match(/^\| \[.*$/gm), rows)
})

test('pages name source files that exist', () => {
  // Records of measurements have the names of their time.
  const pages = paths.filter(path => path.endsWith('.md') && !path.startsWith('bench/results/'))
  const missing = pages.flatMap(page => {
    const named = [
      ...proseLines(page)
        .join('\n')
        .matchAll(/`([\w@./-]+\.(?:ts|py|go|proto))`/g),
    ]
    return named.flatMap(([, name = '']) =>
      paths.some(path => path === name || path.endsWith(`/${name}`)) ? [] : [`${page}: ${name}`],
    )
  })
  assert.deepEqual(missing, [])
})

test('the operations pages search logs for texts that the code writes', () => {
  const code = codePaths.filter(path => !isTest(path)).map(textOf)
  for (const page of ['runbooks', 'troubleshooting']) {
    const searches = [...read(`docs/operations/${page}.md`).matchAll(/ logs .*\| grep (-\S+ )*(.*)/g)]
    assert.ok(searches.length > 0)
    for (const [line, , pattern = ''] of searches) {
      const [, quoted, word] = /^'([^']+)'|^(\S+)/.exec(pattern) ?? []
      const text = new RegExp(quoted ?? word ?? '', 'i')
      if (line.includes('app=YOUR_APP')) continue
      assert.ok(
        code.some(source => text.test(source)),
        line,
      )
    }
  }
})

test('links of pages have existing files and headings', () => {
  const pages = paths.filter(path => path.endsWith('.md'))
  const broken = pages.flatMap(page =>
    [
      ...proseLines(page)
        .join('\n')
        .replaceAll(/`[^`\n]*`/g, '')
        .matchAll(/\]\(([^):\s#]*)(?:#([^)\s]*))?\)/g),
    ].flatMap(([link, target = '', heading]) => {
      const path = target === '' ? page : join(dirname(page), target)
      if (!existsSync(join(root, path))) return [`${page}: ${link}`]
      const isFound = heading === undefined || !path.endsWith('.md') || headingsOf(path).has(heading)
      return isFound ? [] : [`${page}: ${link}`]
    }),
  )
  assert.deepEqual(broken, [])
})

/** Returns the headings of a page, as the fragment of an address names them. */
function headingsOf(page: string): ReadonlySet<string> {
  const headings = proseLines(page).flatMap(line => /^#+ (.*)/.exec(line)?.[1] ?? [])
  return new Set(
    headings.map(text =>
      text
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )
}

test('the index of the documentation lists every page', () => {
  const files = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  const names = files.filter(name => name.endsWith('.md'))
  const index = read('docs/README.md')
  const unlisted = names.filter(name => name !== 'README.md' && !/^decisions\/\d/.test(name))
  assert.deepEqual(
    unlisted.filter(name => !index.includes(`(${name})`)),
    [],
    'docs/README.md has no link',
  )
})

test('the changelog has the sections of Keep a Changelog, and entries of at most two lines', () => {
  const [, ...releases] = read('CHANGELOG.md').split(/^## /m)
  const allowed = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']
  for (const release of releases) {
    const sections = [...release.matchAll(/^### (.*)$/gm)].map(([, name = '']) => name)
    assert.deepEqual(
      sections,
      allowed.filter(name => sections.includes(name)),
    )
    assert.deepEqual(release.match(/^- .*(?:\n {2}.*){2,}/gm) ?? [], [])
  }
})
