import { stringify } from 'yaml'

/** Nested facts the way a benchmark file is written. */
export default function Yaml({ value }: { value: unknown }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <section className="scroll" tabIndex={0} aria-label="Definition as YAML">
      <pre>{stringify(value)}</pre>
    </section>
  )
}
