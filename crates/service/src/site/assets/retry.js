// On error pages that offer a retry: counts down the wait, and reloads when the network is back.

const told = document.getElementById("wait");
const { seconds, one, many, now } = told.dataset;

if (seconds) {
  const end = performance.now() + Number(seconds) * 1000;
  const count = () => {
    const left = Math.ceil((end - performance.now()) / 1000);
    told.textContent = left < 1 ? now : left === 1 ? one : many.replace("{count}", left);
    if (left > 0) setTimeout(count, 1000);
  };
  count();
}
addEventListener("online", () => location.reload());
