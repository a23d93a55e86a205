import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { compile, listLimits } from '@tollway/ratelimit/rules/compile.ts'
import { units } from '@tollway/ratelimit/rules/units.ts'
import { validateDomains } from '@tollway/ratelimit/rules/validate.ts'
import fc from 'fast-check'
import { CORE_SCHEMA, load } from 'js-yaml'
import { nearlyRightResource } from '../../../crds/testing/arbitrary-rate-limit-config.ts'
import { decodeDomain } from '../../../services/ratelimit/config/domain-codec.ts'
import { goldenTests } from '../../../test/support/golden.ts'
import { formatProblem } from '../kind-adapter.ts'
import { toEnvoyQuota } from './envoy-quota.ts'
import { encodeRateLimitDomain } from './rate-limit-config.ts'
import { countLimits, translateRateLimitConfig } from './translate-rate-limit-config.ts'

goldenTests(join(import.meta.dirname, 'testdata/ratelimitconfig'), text => {
  const resource = load(text, { schema: CORE_SCHEMA }) as {
    metadata: { namespace?: string; name: string }
  }
  const { namespace = 'default', name } = resource.metadata
  return translateRateLimitConfig(`${namespace}/${name}`, resource)
})

goldenTests(join(import.meta.dirname, 'testdata/envoyquota'), text => {
  const made = translateRateLimitConfig('shop/a', load(text, { schema: CORE_SCHEMA }))
  assert.ok('value' in made, JSON.stringify(made))
  return toEnvoyQuota([made.value], new Map([['path', ':path']]))
})

test('every accepted resource can be encoded, and is accepted by a process', () => {
  let accepted = 0
  fc.assert(
    fc.property(nearlyRightResource, resource => {
      const made = translateRateLimitConfig('default/a', resource)
      if ('problems' in made) {
        assert.notEqual(made.problems.length, 0)
        return
      }
      accepted += 1
      const received = decodeDomain(encodeRateLimitDomain(made.value).bytes)
      assert.deepEqual(
        validateDomains([received], { mergeDomainConfigs: false, spelling: 'camel' }).problems,
        [],
      )
      const rules = compile([received], { mergeDomainConfigs: false, attach: () => undefined })
      assert.equal([...listLimits(rules)].length, countLimits(made.value.descriptors))
    }),
  )
  assert.ok(accepted > 10, `${accepted} resources were accepted`)
})

test('a problem of the whole resource has no path', () => {
  assert.equal(formatProblem({ path: '', message: 'is wrong' }), 'is wrong')
  assert.equal(formatProblem({ path: 'spec.domain', message: 'is wrong' }), 'spec.domain: is wrong')
})

test('a resource accepts every unit of the language, and a wrong unit is rejected with the list', () => {
  const limited = (unit: string) => ({
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: 'a', namespace: 'default' },
    spec: { domain: 'a', descriptors: [{ key: 'k', rateLimit: { unit, requestsPerUnit: 1 } }] },
  })
  for (const unit of units) assert.ok('value' in translateRateLimitConfig('default/a', limited(unit)), unit)
  const wrong = translateRateLimitConfig('default/a', limited('fortnight'))
  assert.ok('problems' in wrong)
  assert.match(wrong.problems.map(({ message }) => message).join(), new RegExp(units.join(', ')))
})
