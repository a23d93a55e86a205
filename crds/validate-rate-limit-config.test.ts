import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { largeCases } from './testing/large-cases.ts'
import { readCases } from './testing/read-cases.ts'
import { validateRateLimitConfig } from './validate-rate-limit-config.ts'

const cases = [...readCases('rate-limit-configs.yaml', 'RateLimitConfig'), ...largeCases]

describe('all problems of a RateLimitConfig are reported', () => {
  for (const { name, resource, problems } of cases) {
    it(name, () => {
      const judged = validateRateLimitConfig(resource)
      const found = 'problems' in judged ? judged.problems : []
      assert.deepEqual(
        found.map(({ path, message }) => `${path}: ${message}`),
        problems,
      )
    })
  }
})

describe('a valid RateLimitConfig', () => {
  const envelope = {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: 'a' },
  }

  it('is returned as written, with empty values filled in and without nulls', () => {
    const rateLimit = { unit: 'day', requestsPerUnit: 3, unlimited: null }
    const spec = {
      domain: 'a',
      descriptors: [{ key: 'b', rateLimit, descriptors: [{ key: 'c', value: 'd' }] }],
    }
    assert.deepEqual(validateRateLimitConfig({ ...envelope, spec }), {
      value: {
        domain: 'a',
        descriptors: [
          {
            key: 'b',
            value: '',
            rateLimit: { unit: 'day', requestsPerUnit: 3 },
            descriptors: [{ key: 'c', value: 'd' }],
          },
        ],
      },
    })
  })

  it('is not changed by validation', () => {
    const resource = { ...envelope, spec: { domain: 'a', descriptors: [{ key: 'b', rateLimit: null }] } }
    const before = structuredClone(resource)
    validateRateLimitConfig(resource)
    assert.deepEqual(resource, before)
  })
})

it('has at most 256 regular expressions, of which none is judged if there are more', () => {
  const regexOf = (count: number, level: readonly object[]) =>
    Array.from({ length: count }, (_, index) => ({
      key: `${index}`,
      match: { regex: '(' },
      descriptors: level,
    }))
  const judge = (descriptors: readonly object[]) =>
    validateRateLimitConfig({
      ...{ apiVersion: 'tollway.dev/v1alpha1', kind: 'RateLimitConfig', metadata: { name: 'a' } },
      spec: { domain: 'a', descriptors },
    })
  const message = 'has 272 regular expressions in match; at most 256 are allowed'
  assert.deepEqual(judge(regexOf(16, regexOf(16, []))), { problems: [{ path: 'spec.descriptors', message }] })
  const judged = judge(regexOf(16, regexOf(15, [])))
  assert.ok('problems' in judged && judged.problems.length === 101)
})

it('any value gets a result', () => {
  for (const resource of [undefined, null, 5, 'text', [], new Date(0), new Map(), () => 1, Symbol('a'), 5n]) {
    assert.ok('problems' in validateRateLimitConfig(resource))
  }
})
