import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compilePattern, expandTemplate } from './pattern.ts'

test('every pattern takes time linear in the name', { timeout: 5000 }, () => {
  const name = `ratelimit.service.rate_limit.${'.'.repeat(10_000)}x`
  for (const text of ['(.*)\\.(.*)\\.(.*)(\\..*)\\.near_limit$', '^(\\.?\\.?)+$', '(a|a|\\.)*\\.y']) {
    const compiled = compilePattern(text)
    assert.ok('pattern' in compiled)
    assert.equal(compiled.pattern.exec(name), null)
  }
})

test('groups are counted, also with the syntax of Go for names', () => {
  const groups = (text: string) => {
    const compiled = compilePattern(text)
    return 'groups' in compiled ? compiled.groups : compiled.error
  }
  assert.equal(groups('a'), 0)
  assert.equal(groups('(a)(?:b)|(c)'), 2)
  assert.equal(groups('(?P<name>a)\\.'), 1)
})

test('patterns that take longer or have another meaning in Go are rejected', () => {
  const rejected = ['(?=a)', '(a)\\1', '(', '[b-a]', '\\Aa', 'a\\z', '[[:alpha:]]', '(?i)a', 'a'.repeat(1001)]
  for (const text of rejected) assert.ok('error' in compilePattern(text), text)
})

test('a template is expanded with the groups', () => {
  const expand = (template: string) => expandTemplate(template, ['whole', 'one', undefined], () => '?')
  const cases = { $1: 'one', '${1}x': 'onex', '$1$2.$0': 'one.whole', $3: '?', $12: '?', $: '$', $$1: '$one' }
  for (const [template, expected] of Object.entries(cases)) assert.equal(expand(template), expected, template)
})
