import assert from 'node:assert/strict'
import { test } from 'node:test'
import { locales } from '../../domain/input/request-bodies.ts'
import { findTestCardByName } from '../../processor/test-cards.ts'
import { html, renderHtml } from '../views/html.ts'
import { textsFor } from './texts.ts'

/**
 * Returns all texts with their paths. Calls functions with the word `WORD`, which must appear in the result.
 */
function leavesOf(value: unknown, path = ''): (readonly [path: string, text: string])[] {
  if (typeof value === 'string') return [[path, value]]
  if (typeof value === 'function') return [[path, value('WORD')]]
  return Object.entries(value as object).flatMap(([name, inner]) => leavesOf(inner, `${path}.${name}`))
}

test('both languages have every text, and different ones', () => {
  const [english, danish] = locales.map(locale => leavesOf(textsFor(locale)))
  assert.deepEqual(
    english?.map(([path]) => path),
    danish?.map(([path]) => path),
  )
  const same = new Set(['.reference'])
  for (const [index, [path, text]] of (english ?? []).entries()) {
    const other = danish?.[index]?.[1] ?? ''
    assert.ok(text.trim() !== '' && other.trim() !== '', path)
    if (!same.has(path)) assert.notEqual(text, other, path)
    assert.equal(text.includes('WORD'), other.includes('WORD'), path)
  }
})

test('the cards that the texts name are test cards', () => {
  for (const name of Object.keys(textsFor('en').card.testCardMeanings))
    assert.ok(findTestCardByName(name), name)
})

test('values of a template are escaped, and other templates are not', () => {
  const hostile = `<img src=x onerror="alert('1')">&`
  const escaped = '&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;'
  const inner = html`<b>${hostile}</b>`
  assert.equal(
    renderHtml(html`<p title="${hostile}">${[inner, inner]}${null}${undefined}${false}${0}${1n}</p>`),
    `<p title="${escaped}"><b>${escaped}</b><b>${escaped}</b>01</p>`,
  )
})
