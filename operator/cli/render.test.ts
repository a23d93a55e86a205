import assert from 'node:assert/strict'
import { test } from 'node:test'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { render, renderTable } from './render.ts'

test('a table has columns as wide as their widest cell, and no space at the ends of lines', () => {
  const table = renderTable(
    ['NAME', 'STATE'],
    [
      ['shop/checkout', 'ready'],
      ['a', ''],
    ],
  )
  assert.equal(table, 'NAME           STATE\nshop/checkout  ready\na\n')
  assert.equal(renderTable(['NAME'], []), 'NAME\n')
})

test('control characters of a manifest are escaped before they reach a terminal', () => {
  assert.equal(escapeControls('a\u001b[2Jb\nc\u202ed'), 'a\\u{1b}[2Jb\\u{a}c\\u{202e}d')
  assert.equal(renderTable(['A', 'B'], [['\u001b', 'b']]), 'A       B\n\\u{1b}  b\n')
})

test('values are rendered as JSON and YAML', () => {
  assert.equal(render([{ a: 1 }], 'json'), '[\n  {\n    "a": 1\n  }\n]\n')
  assert.equal(render([{ a: 1 }], 'yaml'), '- a: 1\n')
})
