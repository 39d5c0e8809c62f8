export default function Page() {
  return <p>heed</p>;
}
