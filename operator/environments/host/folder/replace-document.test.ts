import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replaceDocument } from './replace-document.ts'

const config = (name: string, domain: string) => `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: ${name}}
spec: {domain: ${domain}, descriptors: []}
`

const a = config('a', 'one')
const b = config('b', 'two')
const changed = `# a comment of the author\n${config('b', 'three')}`
const target = { kind: 'RateLimitConfig', namespace: 'default', name: 'b' }
const list = `apiVersion: v1
kind: List
items:
- ${b.trim().replaceAll('\n', '\n  ')}
`

/**
 * Each row: a name, a file, and the expected file; an empty text stands for the file with only `b` changed.
 */
const cases: readonly (readonly [name: string, text: string, expected: string])[] = [
  ['the only document', b, changed],
  ['a document with a marker before it', `---\n${b}`, `---\n${changed}`],
  ['the last of several', `# first\n${a}---\n${b}`, `# first\n${a}---\n${changed}`],
  ['the first of several', `${b}---\n# second\n${a}`, `${changed}---\n# second\n${a}`],
  ['one between others', `${a}---\n${b}---\nkind: Pod\napiVersion: v1\nmetadata: {name: p}\n`, ''],
]

for (const [name, text, expected] of cases)
  test(`replaces ${name}, and keeps the others`, () => {
    const replaced = replaceDocument(text, 'x.yaml', target, changed)
    assert.deepEqual(replaced, { text: expected || text.replace(b, changed) })
  })

const rejected: readonly (readonly [name: string, text: string, document: string, problem: RegExp])[] = [
  ['an item of a List', list, changed, /x\.yaml declares the resource in a list; edit the file/],
  ['a file without the resource', a, changed, /edit the file/],
  ['a document with another name', `${a}---\n${b}`, config('a', 'five'), /without its other documents/],
  ['two documents instead of one', b, `${b}---\n${config('c', 'six')}`, /without its other documents/],
]

for (const [name, text, document, problem] of rejected)
  test(`does not change ${name}`, () => {
    const replaced = replaceDocument(text, 'x.yaml', target, document)
    assert.match('problem' in replaced ? replaced.problem : 'changed', problem)
  })
