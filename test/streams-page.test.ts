import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { settings } from '@tollway/broker/settings.ts'
import { BrokerStats } from '../services/broker/broker-stats.ts'
import { animationServices } from '../services/broker/servers/grpc-methods.ts'
import { receivedMetadata } from '../services/broker/streams/late-join.ts'
import { maxIdCharacters } from '../services/broker/wire/animation-ids.ts'
import { root } from './support/tollway.ts'

/** Compares the pages about streams with the code of the broker. */

const page = ['concepts', 'reference']
  .map(folder => readFileSync(join(root, 'docs', folder, 'streams.md'), 'utf8'))
  .join('\n')
const section = (heading: string) =>
  new RegExp(`\n##+ ${heading}\n(.*?)(?=\n##+ |$)`, 's').exec(page)?.[1] ?? ''
const told = `${section('Statuses')}${section('gRPC codes')}`

const broker = join(root, 'services/broker')
const sources = readdirSync(broker, { recursive: true, encoding: 'utf8' }).filter(
  name => name.endsWith('.ts') && !/\.test\.ts$|under-test|contract|testdata|testing|fuzz|random/.test(name),
)
const code = sources.map(name => readFileSync(join(broker, name), 'utf8')).join('\n')
/** The code that rejects messages that are too long for any route. */
const transport = readFileSync(join(root, 'services/grpc/calls/message-reader.ts'), 'utf8')

const trim = (text: string) => text.replace(/^[\s"';:,#]+|[\s"';:,#]+$/g, '')

/** The verbatim parts of a text, without blanks and punctuation at their ends. */
const fixedParts = (text: string, hole: RegExp) =>
  text
    .split(hole)
    .map(trim)
    .filter(part => part.length > 3)

/** The code may put a text together from several. */
function isOfCode(text: string, pieces = 3): boolean {
  const part = trim(text)
  if (code.includes(part) || transport.includes(part)) return true
  if (pieces === 1) return false
  const joints = [...part.matchAll(/ /g)].map(({ index }) => index)
  return joints.some(joint => isOfCode(part.slice(0, joint), 1) && isOfCode(part.slice(joint), pieces - 1))
}

test('every text of the tables is in the code', () => {
  const texts = [...told.matchAll(/^\|[^|]*\|[^|]*\| `([^`]*)` \|/gm)].map(match => match[1] ?? '')
  assert.ok(texts.length > 35)
  const missing = texts.flatMap(text => fixedParts(text, /…|×\d+|#0/).filter(part => !isOfCode(part)))
  assert.deepEqual(missing, [])
})

test('every text that the code has for callers is in the tables', () => {
  const rejections = /(?:GrpcError|LogRejection)\(\s*'?\w+'?,\s*(?:'([^'\n]*)'|`([^`\n]*)`)/g
  const status = /\bmessage: (?:'([^'\n]*)'|"([^"\n]*)"|`([^`\n]*)`)/g
  const matches = [...code.matchAll(rejections), ...code.matchAll(status)]
  const found = matches.map(match => match.slice(1).find(text => text !== undefined) ?? '')
  assert.ok(found.length > 25)
  const missing = found.flatMap(text => fixedParts(text, /\$\{[^}]*\}/)).filter(part => !told.includes(part))
  // Notices for the broker itself: a request that is gone counts as one that never was.
  const ownAffairs = ['no message of the request is kept any more', 'internal error']
  assert.deepEqual(
    missing.filter(part => !ownAffairs.includes(part)),
    [],
  )
})

test('the table of gRPC codes has exactly those of the broker', () => {
  const logRejections = [...code.matchAll(/^ {2}(?:exists|interrupted|unavailable): '([A-Z_]+)'/gm)]
  const thrown = [...code.matchAll(/GrpcError\(\s*'([A-Z_]+)'/g)]
  const inCode = new Set([...logRejections, ...thrown].map(match => match[1]))
  // A defect, which has no text.
  inCode.delete('INTERNAL')
  const rows = [...section('gRPC codes').matchAll(/^\| ([A-Z_]+) \|/gm)].map(match => match[1])
  assert.deepEqual(new Set(rows), inCode)
})

test('the table of metrics has exactly those of the broker', () => {
  const gauges = [...code.matchAll(/stats\.gauge\('([a-z_.]+)'/g)].map(match =>
    match[1]?.replaceAll('.', '_'),
  )
  const route = new BrokerStats().route('')
  const counters = [...Object.keys(route.counters), 'errors', 'violations'].map(name => `${name}_total`)
  const rows = [...section('Metrics').matchAll(/^\| (`[a-z_`, ]+`) \|/gm)].flatMap(match =>
    [...(match[1] ?? '').matchAll(/`([a-z_]+)`/g)].map(name => name[1]),
  )
  assert.deepEqual(new Set(rows), new Set([...gauges, ...counters, ...Object.keys(route.histograms)]))
})

test('names, limits and settings are those of the code', () => {
  for (const name of Object.values(animationServices)) assert.ok(page.includes(name), name)
  assert.match(page, new RegExp(`${receivedMetadata}: none\n`))
  assert.match(page, new RegExp(`${receivedMetadata}: \\S+=120\n`))
  assert.ok(page.includes(`at most ${maxIdCharacters} characters`))
  const names = new Set<string>(Object.values(settings).map(({ name }) => name))
  const shared = ['NAME', 'TOKEN', 'POD', 'N']
  const used = [...page.matchAll(/`([A-Z][A-Z_]+)(?:=[^`]*)?`/g)].map(match => match[1] ?? '')
  assert.deepEqual(
    used.filter(name => name.includes('_') && !names.has(name) && !shared.includes(name)),
    [],
  )
})
