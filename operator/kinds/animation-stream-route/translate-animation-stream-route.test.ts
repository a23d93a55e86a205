import { join } from 'node:path'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../../test/support/golden.ts'
import { translateAnimationStreamRoute } from './translate-animation-stream-route.ts'

goldenTests(join(import.meta.dirname, 'testdata/animationstreamroute'), text => {
  const resource = load(text, { schema: CORE_SCHEMA }) as {
    metadata: { namespace?: string; name: string }
  }
  const { namespace = 'default', name } = resource.metadata
  return translateAnimationStreamRoute(`${namespace}/${name}`, resource)
})
