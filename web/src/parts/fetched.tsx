import { type ComponentType, useEffect, useState } from 'react'
import { Loading } from '@/parts/Loading'

/**
 * A component whose code is a file of its own: `[Component, fetch]`.
 *
 * The file comes when the component is first shown, or with `fetch()` before: while a page waits for its data, say.
 * React's own `lazy` would show it 300 ms later than it is there, so that pages with many such parts come in one go.
 */
export function fetched<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
  what: string,
): readonly [ComponentType<Props>, () => void] {
  let found: ComponentType<Props> | undefined
  let coming: Promise<void> | undefined
  const come = () => {
    coming ??= load().then(
      (file) => {
        found = file.default
      },
      (problem: unknown) => {
        coming = undefined // asked again the next time
        throw problem
      },
    )
    return coming
  }
  // biome-ignore lint/correctness/noComponentHookFactories: made once, where a file is named, never while drawing
  function Fetched(props: Props) {
    const [isThere, setThere] = useState(found !== undefined)
    const [problem, setProblem] = useState<Error>()
    useEffect(() => {
      if (!isThere)
        come().then(
          () => setThere(true),
          (why: unknown) => setProblem(why instanceof Error ? why : new Error(String(why))),
        )
    }, [isThere])
    if (problem) throw problem
    const Found = found
    return Found ? <Found {...props} /> : <Loading what={what} />
  }
  // A failure is reported where the result is to be shown.
  return [Fetched, () => void come().catch(() => {})]
}
