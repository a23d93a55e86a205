import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import { goldenTests } from '../../../../test/support/golden.ts'
import { makeRoles, type RolePlaces } from '../testing/make-roles.ts'

const cases = fileURLToPath(new URL('testdata/roles', import.meta.url))
goldenTests(cases, text => makeRoles(load(text) as RolePlaces))
